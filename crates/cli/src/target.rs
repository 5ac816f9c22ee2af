//! From the words of a command line to an object: one rule for every command.
//!
//! ```text
//! 40 hexadecimal digits ──► an id
//! namespace:name        ──► a name; the first colon ends the namespace
//! :name                 ──► a name of the default namespace that has a colon or looks like an id
//! name                  ──► a name of the default namespace; where no object has it and it is
//!                           6 hexadecimal digits or more: the one id that begins so
//! ```
//!
//! Commands print names in the form in which they read them, so a printed name can be typed.

use std::time::Duration;

use anyhow::{Result, bail};
use plasmon_client::{Client, Error};
use plasmon_proto::id::OBJECT_ID_BYTES;
use plasmon_proto::message::Filter;
use plasmon_proto::object::{ObjectInfo, ObjectState};
use plasmon_proto::{Code, Name, ObjectId};

use crate::failure::{ObjectFailure, usage};

/// The fewest digits that are looked for among the beginnings of ids.
const ID_DIGITS_MIN: usize = 6;

/// Objects that are looked at for the beginning of an id, or for a name that is nearly the one that
/// was typed.
const LOOKED_AT_MAX: usize = 100_000;

/// How similar two names must be, from 0 to 1, to suggest one for the other.
const ALIKE_MIN: f64 = 0.84;

/// How many names are suggested.
const SUGGESTIONS_MAX: usize = 3;

/// An object as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The argument as typed.
    pub(crate) text: String,
    /// The object's id.
    pub(crate) id: ObjectId,
    /// Its name, if that is what was typed.
    pub(crate) name: Option<Name>,
}

impl Target {
    /// The object that a string names, found without the store.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if let Ok(id) = text.parse() {
            return Ok(Self { text: text.to_owned(), id, name: None });
        }
        let (namespace, name) = text.split_once(':').unwrap_or(("", text));
        let name = Name::new(namespace, name)
            .map_err(|bad| usage(format!("\"{text}\" is neither an id nor a name: {bad}")))?;
        Ok(Self { text: text.to_owned(), id: name.id(), name: Some(name) })
    }

    /// The object that a string names in this store.
    pub(crate) fn find(store: &Client, text: &str) -> Result<Self> {
        let found = Self::parse(text)?;
        if !is_id_start(text) || !is_absent(store.states(&[found.id])?[0]) {
            return Ok(found);
        }
        let start = text.to_ascii_lowercase();
        let mut ids = Vec::new();
        for object in store.listing(&Filter::default()).take(LOOKED_AT_MAX) {
            let id = object?.id;
            if id.to_string().starts_with(&start) {
                ids.push(id);
            }
        }
        match ids[..] {
            [id] => Ok(Self { id, name: None, ..found }),
            [] => Ok(found),
            _ => bail!(usage(format!(
                "no object is named \"{text}\", and {} ids begin with it: give more digits",
                ids.len()
            ))),
        }
    }

    /// The object as an error calls it: by its name as well as its id.
    pub(crate) fn described(&self, store: &Client) -> String {
        // A failed request is ignored: another error is being reported.
        let named = |id| store.stat(id).ok().flatten().and_then(|object| object.name);
        let name = self.name.clone().or_else(|| named(&self.id));
        name.map_or_else(
            || format!("object {}", self.id),
            |name| format!("\"{}\" ({})", display_name(&name), self.id),
        )
    }

    /// An error about this object, with the name that was typed.
    pub(crate) fn failure(&self, store: &Client, error: Error) -> anyhow::Error {
        let text = match error.code() {
            Code::Absent => self.absent(store),
            Code::Exists => taken(&self.id, &self.described(store)),
            _ => {
                let (text, id) = (error.to_string(), self.id.to_string());
                let about = self.described(store);
                // The error may know the object by its name already.
                let typed = format!("\"{}\"", self.text);
                let known = text.contains(&typed) || text.contains(&about) || !text.contains(&id);
                if known { text } else { text.replacen(&id, &about, 1) }
            }
        };
        ObjectFailure { code: error.code(), object: self.text.clone(), id: Some(self.id), text }
            .into()
    }

    fn absent(&self, store: &Client) -> String {
        let Some(name) = &self.name else {
            return format!("no object has the id {}: `plasmon ls --long` shows ids", self.id);
        };
        let typed = display_name(name);
        let near = nearest(&typed, &names(store));
        let advice = match &near[..] {
            [] => "`plasmon ls` lists the objects".to_owned(),
            near => format!("did you mean {}?", near.join(", ")),
        };
        format!("no object is named \"{typed}\" ({}): {advice}", self.id)
    }
}

/// A name as it is typed.
pub(crate) fn display_name(name: &Name) -> String {
    let is_plain = name.namespace.is_empty()
        && !name.text.contains(':')
        && name.text.parse::<ObjectId>().is_err();
    if is_plain { name.text.clone() } else { format!("{}:{}", name.namespace, name.text) }
}

/// What to do about a name that is in use.
fn taken(id: &ObjectId, described: &str) -> String {
    let advice = if id.is_pooled() {
        "delete it first with `plasmon rm`, or choose another name: a pool replaces nothing"
    } else {
        "pass --replace to replace it"
    };
    format!("{described} exists already: {advice}")
}

/// The name for a new object. Without a namespace the string is read as in a lookup; a name that no
/// lookup could find is refused.
pub(crate) fn new_name(text: &str, namespace: Option<&str>) -> Result<Name> {
    let name = match namespace {
        None => match Target::parse(text)?.name {
            Some(name) => name,
            None => bail!(usage(format!(
                "\"{text}\" would be read as an id by other commands: give another \
                 --name, or \":{text}\""
            ))),
        },
        Some(namespace) if namespace.contains(':') => bail!(usage(format!(
            "the namespace \"{namespace}\" has a colon, which would end the namespace in other \
             commands: give another one"
        ))),
        Some(namespace) => Name::new(namespace, text)
            .map_err(|bad| usage(format!("\"{text}\" cannot be a name: {bad}")))?,
    };
    Ok(name)
}

fn is_absent(state: ObjectState) -> bool {
    !matches!(state, ObjectState::Sealed | ObjectState::Spilled | ObjectState::Creating)
}

/// Whether a string can be the beginning of an id.
pub(crate) fn is_id_start(text: &str) -> bool {
    (ID_DIGITS_MIN..2 * OBJECT_ID_BYTES).contains(&text.len())
        && text.bytes().all(|letter| letter.is_ascii_hexdigit())
}

/// The names of objects, as they are typed.
pub(crate) fn names(store: &Client) -> Vec<String> {
    let objects = store.listing(&Filter::default()).take(LOOKED_AT_MAX);
    // This is for a suggestion: a store that does not answer has caused an error before.
    objects.map_while(Result::ok).filter_map(|object| Some(display_name(&object.name?))).collect()
}

/// The names that are most like the one that was typed, quoted.
fn nearest(typed: &str, names: &[String]) -> Vec<String> {
    let small = typed.to_lowercase();
    let alike = |name: &String| {
        let text = name.rsplit(':').next().unwrap_or(name).to_lowercase();
        let whole = strsim::jaro_winkler(&small, &name.to_lowercase());
        whole.max(strsim::jaro_winkler(&small, &text))
    };
    let mut scored: Vec<(f64, &String)> = names.iter().map(|name| (alike(name), name)).collect();
    scored.retain(|(score, _)| *score >= ALIKE_MIN);
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    scored.iter().take(SUGGESTIONS_MAX).map(|(_, name)| format!("\"{name}\"")).collect()
}

/// The name of an object in a table, or "-".
pub(crate) fn name_of(object: &ObjectInfo) -> String {
    object.name.as_ref().map_or_else(|| "-".to_owned(), display_name)
}

/// A duration of this many seconds, as flags give it.
pub(crate) fn seconds(flag: &str, value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| {
        usage(format!("{flag} takes a number of seconds, 0 or more; found {value}")).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Result<ObjectId> {
        Ok(Target::parse(text)?.id)
    }

    /// For a name of a pool it was the advice to replace the object, which pools refuse.
    #[test]
    fn a_name_that_is_taken_has_an_advice_that_works() {
        let advice = |text: &str| taken(&Target::parse(text).unwrap().id, text);
        assert!(advice("sales").contains("--replace"));
        assert!(advice("@prod:sales").contains("plasmon rm"));
        assert!(!advice("@prod:sales").contains("--replace"));
    }

    #[test]
    fn ids_and_names_are_distinguished() {
        let id = ObjectId::new([0xab; 20]);
        assert_eq!(object(&id.to_string()).unwrap(), id);
        assert_eq!(object("x").unwrap(), Name::new("", "x").unwrap().id());
        assert_eq!(object("a:b:c").unwrap(), Name::new("a", "b:c").unwrap().id());
        assert_eq!(object(":a:b").unwrap(), Name::new("", "a:b").unwrap().id());
        assert!(object("").is_err());
        assert!(object("a:").is_err());
        assert!(seconds("--timeout", f64::NAN).is_err());
        assert!(seconds("--timeout", -1.0).is_err());
    }

    /// `--name a:b` was stored as the name "a:b", and `get a:b` looked for "b" in "a".
    #[test]
    fn what_is_shown_of_a_name_and_what_made_it_mean_the_same_object() {
        let id = "ab".repeat(20);
        for (namespace, text) in [("", "x"), ("n", "x"), ("n", "a:b"), ("", "a:b"), ("", &id)] {
            let name = Name::new(namespace, text).unwrap();
            assert_eq!(object(&display_name(&name)).unwrap(), name.id(), "{name:?}");
            assert_eq!(new_name(&display_name(&name), None).unwrap(), name);
            assert_eq!(new_name(text, Some(namespace)).unwrap(), name);
        }
        assert!(new_name(&id, None).unwrap_err().to_string().contains("read as an id"));
        assert!(new_name("x", Some("a:b")).unwrap_err().to_string().contains("colon"));
        assert!(new_name("a:", None).is_err());
    }

    #[test]
    fn names_that_are_nearly_the_same_are_suggested() {
        let names = ["sales", "Sales-2025", "stocks", "n:prices"].map(str::to_owned);
        assert_eq!(nearest("sale", &names), ["\"sales\"", "\"Sales-2025\""]);
        assert_eq!(nearest("price", &names), ["\"n:prices\""]);
        assert!(nearest("zebra", &names).is_empty());
    }
}
