//! What clients did with each name and were told, and whether one pool could have answered so.
//!
//! An object is known by its token, which its metadata and its bytes follow from. A name has an
//! object from its put to its delete. A copy of a deleted object may be read for a moment after the
//! delete was acknowledged, until its node hears of that, but never after an object that took its
//! place.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use plasmon_client::Code;

/// Which of the names.
pub(super) type NameNo = usize;

/// Which object of a name.
pub(super) type Token = u64;

/// How a put ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutEnd {
    Accepted,
    /// It was refused with this code.
    Refused(Code),
    /// It may have been accepted, or be accepted later.
    Unknown,
}

/// A put from its begin to its end.
#[derive(Clone, Debug)]
struct Put {
    begin: Instant,
    end: Option<(Instant, PutEnd)>,
    /// When it was first known to exist.
    seen: Option<Instant>,
    /// The copies it had when it was accepted, at least.
    copies: usize,
    /// Whether its copies are in logs.
    is_durable: bool,
    /// Nodes that died since then, with what its copies are in.
    deaths: usize,
}

/// What goes with nodes that die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The memory of so many; their logs stay.
    Memory(usize),
    /// The memory and the log of one.
    Log,
}

impl Loss {
    /// The memory of all nodes, and everything that is in memory alone.
    pub(super) const ALL_MEMORY: Self = Self::Memory(1_000);

    /// How many copies of an object are gone at most.
    pub(super) fn deaths(self, is_durable: bool) -> usize {
        match self {
            Self::Memory(_) if is_durable => 0,
            Self::Memory(nodes) => nodes,
            Self::Log => 1,
        }
    }
}

/// What is known of one name since it was last looked at in peace.
#[derive(Debug, Default)]
struct Line {
    puts: BTreeMap<Token, Put>,
    /// When deletes began and were acknowledged.
    deletes: BTreeMap<u64, (Instant, Option<Instant>)>,
}

/// What a name must have when nothing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    This(Token),
    Nothing,
    Either,
    /// The object was there, and as many nodes died as had copies.
    PerhapsLost,
}

/// All names.
#[derive(Debug, Default)]
pub(super) struct History {
    lines: BTreeMap<NameNo, Line>,
    /// Objects that were gone when the names were looked at in peace, and what was known of them.
    over: BTreeMap<Token, String>,
    last: u64,
    pub(super) findings: BTreeSet<String>,
}

impl History {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn put_begins(&mut self, name: NameNo, copies: usize, is_durable: bool) -> Token {
        let token = self.number();
        let begin = Instant::now();
        let put = Put { begin, end: None, seen: None, copies, is_durable, deaths: 0 };
        self.lines.entry(name).or_default().puts.insert(token, put);
        token
    }

    pub(super) fn put_ends(&mut self, name: NameNo, token: Token, end: PutEnd) {
        let now = Instant::now();
        let line = self.lines.entry(name).or_default();
        let Some(put) = line.puts.get_mut(&token) else { return };
        put.end = Some((now, end));
        if end != PutEnd::Accepted {
            return;
        }
        put.seen = Some(put.seen.map_or(now, |seen| seen.min(now)));
        let begin = put.begin;
        if let Some(other) = line.certain(begin, now).filter(|other| *other != token) {
            let finding =
                format!("lost: @soak:{name}: {token} was put over {other}, which was there");
            self.findings.insert(finding);
        }
    }

    pub(super) fn delete_begins(&mut self, name: NameNo) -> u64 {
        let number = self.number();
        let line = self.lines.entry(name).or_default();
        line.deletes.insert(number, (Instant::now(), None));
        number
    }

    /// Only one that is acknowledged ends; another may take effect later.
    pub(super) fn delete_is_acknowledged(&mut self, name: NameNo, number: u64) {
        let line = self.lines.entry(name).or_default();
        if let Some((_, end)) = line.deletes.get_mut(&number) {
            *end = Some(Instant::now());
        }
    }

    /// An object was read.
    pub(super) fn read(&mut self, name: NameNo, token: Token, begin: Instant) {
        let now = Instant::now();
        let line = self.lines.entry(name).or_default();
        if let Some(known) = self.over.get(&token) {
            let finding =
                format!("resurrected: @soak:{name}: {token} was read, which was gone: {known}");
            self.findings.insert(finding);
            return;
        }
        let mut wrong = |what: String| _ = self.findings.insert(format!("@soak:{name}: {what}"));
        let Some(put) = line.puts.get_mut(&token) else {
            return wrong(format!("{token} was read, which was never put there"));
        };
        if let Some((_, PutEnd::Refused(code))) = put.end {
            wrong(format!("{token} was read, whose put was refused: {}", code.key()));
        }
        let seen = *put.seen.insert(put.seen.map_or(now, |seen| seen.min(now)));
        let later = line.puts.iter().find(|(other, later)| {
            **other != token && later.begin > seen && later.seen.is_some_and(|at| at < begin)
        });
        if let Some((later, _)) = later {
            wrong(format!("{token} was read after {later}, which took its place"));
        }
    }

    /// A node said that there is no object.
    pub(super) fn absent(&mut self, name: NameNo, begin: Instant, what: &str) {
        let line = self.lines.entry(name).or_default();
        if let Some(token) = line.certain(begin, Instant::now()) {
            let finding = format!("lost: @soak:{name}: told {what}, and {token} was there");
            self.findings.insert(finding);
        }
    }

    /// Nodes died.
    pub(super) fn nodes_die(&mut self, loss: Loss) {
        self.lines.values_mut().flat_map(|line| line.puts.values_mut()).for_each(|put| {
            put.deaths += loss.deaths(put.is_durable);
        });
    }

    /// How many copies an object was promised.
    pub(super) fn copies(&self, name: NameNo, token: Token) -> usize {
        let put = self.lines.get(&name).and_then(|line| line.puts.get(&token));
        put.map_or(1, |put| put.copies)
    }

    /// What must be there when no client does anything.
    pub(super) fn expected(&self, name: NameNo) -> Expected {
        let Some(line) = self.lines.get(&name) else { return Expected::Nothing };
        let now = Instant::now();
        if let Some(token) = line.certain(now, now) {
            return Expected::This(token);
        }
        let open = line.puts.values().filter(|put| !line.is_over(put));
        let (mut count, mut lost) = (0, false);
        for put in open {
            count += 1;
            // Of one that no client was told of, the writer's copy may have been the only one.
            let copies = if put.seen.is_some() { put.copies } else { 1 };
            lost |= put.deaths >= copies;
        }
        match (count, lost) {
            (0, _) => Expected::Nothing,
            (_, true) => Expected::PerhapsLost,
            (_, false) => Expected::Either,
        }
    }

    /// The name was looked at in peace: everything else is over, and what is there has its copies.
    pub(super) fn settle(&mut self, name: NameNo, found: Option<Token>) {
        let line = self.lines.entry(name).or_default();
        let deletes = std::mem::take(&mut line.deletes);
        let (kept, over) = std::mem::take(&mut line.puts)
            .into_iter()
            .partition(|(token, _)| Some(*token) == found);
        let over: BTreeMap<Token, Put> = over;
        line.puts = kept;
        let now = Instant::now();
        let ago = |at: &Instant| format!("{:.1?}", now.duration_since(*at));
        let deletes: Vec<_> =
            deletes.values().map(|(begin, end)| (ago(begin), end.as_ref().map(ago))).collect();
        self.over.extend(over.into_iter().map(|(token, put)| {
            let end = put.end.map(|(at, end)| (ago(&at), end));
            let Put { begin, seen, copies, is_durable, deaths, .. } = put;
            let (begin, seen) = (ago(&begin), seen.as_ref().map(ago));
            let known = format!(
                "durable: {is_durable}, {copies} copies, {deaths} nodes died, put {begin} before, \
                 seen {seen:?}, ended {end:?}, deletes {deletes:?}"
            );
            (token, known)
        }));
        for put in line.puts.values_mut() {
            put.end = Some((put.end.map_or(now, |(end, _)| end), PutEnd::Accepted));
            put.deaths = 0;
        }
    }
}

impl Line {
    /// The object that is there for certain from one time to another.
    fn certain(&self, begin: Instant, end: Instant) -> Option<Token> {
        let certain = |put: &Put| {
            let is_deleted = || {
                self.deletes.values().any(|(delete_begin, delete_end)| {
                    *delete_begin <= end && delete_end.is_none_or(|at| at >= put.begin)
                })
            };
            put.seen.is_some_and(|seen| seen < begin) && put.deaths < put.copies && !is_deleted()
        };
        self.puts.iter().find(|(_, put)| certain(put)).map(|(token, _)| *token)
    }

    /// Whether an object cannot be there any more, or never was.
    fn is_over(&self, put: &Put) -> bool {
        let is_refused = matches!(put.end, Some((_, PutEnd::Refused(_))));
        let is_deleted = put.seen.is_some_and(|seen| {
            let after = |(begin, end): &(Instant, Option<Instant>)| *begin > seen && end.is_some();
            self.deletes.values().any(after)
        });
        is_refused || is_deleted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_pool_cannot_have_answered_is_found() {
        let mut history = History::default();
        assert_eq!(history.expected(0), Expected::Nothing);
        let first = history.put_begins(0, 2, false);
        assert_eq!(history.expected(0), Expected::Either);
        history.put_ends(0, first, PutEnd::Accepted);
        assert_eq!(history.expected(0), Expected::This(first));
        history.read(0, first, Instant::now());
        assert!(history.findings.is_empty());
        history.absent(0, Instant::now(), "absent");
        assert_eq!(history.findings.len(), 1, "it is there");
        let second = history.put_begins(0, 2, false);
        history.put_ends(0, second, PutEnd::Accepted);
        assert_eq!(history.findings.len(), 2, "two at one time");
        history.read(0, first, Instant::now());
        assert_eq!(history.findings.len(), 3, "the first was replaced");
        history.read(1, first, Instant::now());
        assert_eq!(history.findings.len(), 4, "another name");
    }

    #[test]
    fn what_was_not_acknowledged_may_be_lost_with_one_node() {
        let mut history = History::default();
        let token = history.put_begins(0, 3, false);
        history.nodes_die(Loss::Memory(1));
        history.put_ends(0, token, PutEnd::Unknown);
        assert_eq!(history.expected(0), Expected::PerhapsLost);
        history.read(0, token, Instant::now());
        assert_eq!(history.expected(0), Expected::This(token));
    }

    #[test]
    fn what_is_in_logs_outlives_all_memory_and_not_its_logs() {
        let mut history = History::default();
        let [durable, other] = [true, false].map(|is_durable| {
            let name = usize::from(!is_durable);
            let token = history.put_begins(name, 2, is_durable);
            history.put_ends(name, token, PutEnd::Accepted);
            token
        });
        history.nodes_die(Loss::Memory(1));
        assert_eq!(history.expected(1), Expected::This(other));
        history.nodes_die(Loss::ALL_MEMORY);
        assert_eq!(history.expected(1), Expected::PerhapsLost);
        history.nodes_die(Loss::Log);
        assert_eq!(history.expected(0), Expected::This(durable));
        history.nodes_die(Loss::Log);
        assert_eq!(history.expected(0), Expected::PerhapsLost);
    }

    #[test]
    fn a_delete_ends_what_was_there_and_no_later_object() {
        let mut history = History::default();
        let first = history.put_begins(0, 1, false);
        history.put_ends(0, first, PutEnd::Accepted);
        let delete = history.delete_begins(0);
        assert_eq!(history.expected(0), Expected::Either);
        history.delete_is_acknowledged(0, delete);
        assert_eq!(history.expected(0), Expected::Nothing);
        let second = history.put_begins(0, 1, false);
        history.put_ends(0, second, PutEnd::Accepted);
        assert_eq!(history.expected(0), Expected::This(second));
        history.nodes_die(Loss::Memory(1));
        assert_eq!(history.expected(0), Expected::PerhapsLost);
        history.settle(0, None);
        assert_eq!(history.expected(0), Expected::Nothing);
        assert!(history.findings.is_empty());
        history.read(0, second, Instant::now());
        assert_eq!(history.findings.len(), 1, "it was gone");
    }
}
