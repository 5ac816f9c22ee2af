//! Names that are nearly the one that was asked for.
//!
//! The error for a misspelt name suggests a similar one. That takes a listing, so it is done only
//! when the error is shown: a program that expects misses must not pay for it.

use std::sync::Weak;

use plasmon_proto::Name;
use plasmon_proto::message::Filter;

use crate::client::{Client, Handle};

/// Objects that are looked at.
const LOOKED_AT_MAX: usize = 4096;

/// One letter out of this many may be wrong, missing or extra, and at least one.
const LETTERS_PER_MISTAKE: usize = 3;

/// The longest name that is compared: the time that takes grows with its square.
const COMPARED_BYTES_MAX: usize = 200;

/// A connection that this does not keep open.
#[derive(Clone, Debug)]
pub struct WeakClient(Weak<Handle>);

impl WeakClient {
    /// The connection, if it is still open.
    pub fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(Client)
    }
}

impl Client {
    /// The same connection, without keeping it open.
    pub fn downgrade(&self) -> WeakClient {
        WeakClient(std::sync::Arc::downgrade(&self.0))
    }

    /// The name of an object that is most like this one, among the first few thousand; `None` when
    /// none is, or when the store does not answer.
    pub fn similar_name(&self, name: &Name) -> Option<Name> {
        let listed = self.listing(&Filter::default()).take(LOOKED_AT_MAX);
        let names = listed.map_while(Result::ok).filter_map(|object| object.name);
        nearest(name, names)
    }
}

/// The one of these names that is most like `wanted`. The same text elsewhere comes first.
fn nearest(wanted: &Name, names: impl Iterator<Item = Name>) -> Option<Name> {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    let typed = letters(&wanted.text);
    let mistakes_max = (typed.len() / LETTERS_PER_MISTAKE).max(1);
    let mut best: Option<((usize, bool), Name)> = None;
    for name in names.filter(|name| name.text.len().max(wanted.text.len()) <= COMPARED_BYTES_MAX) {
        let rank = (mistakes(&typed, &letters(&name.text)), name.namespace != wanted.namespace);
        if rank.0 <= mistakes_max && best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, name));
        }
    }
    best.map(|(_, name)| name)
}

/// How many letters must be changed, added or left out to make one text of the other.
fn mistakes(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, found) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != found);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alike_is_suggested_and_nothing_that_is_not() {
        let name = |namespace: &str, text: &str| Name::new(namespace, text).unwrap();
        let names = || {
            [name("", "numbers"), name("n", "prices"), name("", "Sales"), name("", "sales-2025")]
                .into_iter()
        };
        let nearest = |text| super::nearest(&name("", text), names()).map(|it| it.to_string());
        for (typed, found) in [
            ("number", Some("numbers")),
            ("nubmers", Some("numbers")),
            ("sales", Some("Sales")),
            ("prices", Some("n:prices")),
            ("zebra", None),
        ] {
            assert_eq!(nearest(typed).as_deref(), found, "{typed}");
        }
        let long = "numbers".repeat(30);
        assert_eq!(nearest(&long), None, "what is long takes long to compare");
    }
}
