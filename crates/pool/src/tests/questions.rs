//! Programs that read parts of objects, in simulations: what they ask at random, and whether an
//! answer can be right.

use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherRead, GatherRequest, Gathered};
use plasmon_proto::parts::{Parts, ReadRequest, Span, within};
use plasmon_proto::pool::{Birth, Content};
use plasmon_testkit::Random;

use super::pieces::{Held, Pieces};

/// Objects of one gather.
const GATHERED_MAX: usize = 12;

/// What a program asks for.
#[derive(Clone, Debug)]
pub(super) enum Question {
    One(ReadRequest),
    Many(GatherRequest),
}

impl Question {
    /// The objects, in order.
    pub(super) fn ids(&self) -> Vec<ObjectId> {
        match self {
            Self::One(read) => vec![read.id],
            Self::Many(gather) => gather.reads.iter().map(|read| read.id).collect(),
        }
    }

    /// The incarnation that the program wants.
    pub(super) fn birth(&self) -> Option<Birth> {
        match self {
            Self::One(read) => read.birth,
            Self::Many(_) => None,
        }
    }

    /// Where the data has to end at least.
    pub(super) fn end(&self, at: usize) -> u64 {
        match self {
            Self::One(read) => read.end,
            Self::Many(gather) => gather.reads[at].end,
        }
    }
}

/// An object that a client put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    pub(super) id: ObjectId,
    pub(super) birth: Birth,
    pub(super) content: Content,
}

/// Some bytes of an object: near borders of pages, messages and segments, and beyond the end.
fn spans(dice: &mut Random, max: usize) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for _ in 0..dice.size_below(max + 1) {
        let at = spans.last().map_or(0, Span::end);
        let skip = dice.pick(&[0, 0, 1, 60, 4_096, 99_000, 1 << 20, 2_990_000]);
        let bytes = dice.pick(&[1, 64, 3_000, 40_000, 65_536, 65_537, 1 << 20, 1_300_000]);
        spans.push(Span { offset: at + skip, bytes: bytes.max(1 + dice.below(100)) });
    }
    spans
}

fn end(dice: &mut Random, spans: &[Span]) -> u64 {
    if dice.percent(30) { spans.last().map_or(0, Span::end) } else { 0 }
}

/// Something to ask about these objects, of which some were put with these births.
pub(super) fn question(
    dice: &mut Random,
    ids: &[ObjectId],
    birth_of: impl Fn(&ObjectId) -> Option<Birth>,
) -> Question {
    if dice.percent(50) {
        let id = ids[dice.size_below(ids.len())];
        let birth = if dice.percent(30) { birth_of(&id) } else { None };
        let spans = spans(dice, 5);
        let (end, metadata) = (end(dice, &spans), dice.percent(50));
        let timeout_ms = if dice.percent(70) { 0 } else { dice.below(3_000) };
        return Question::One(ReadRequest { id, birth, spans, end, metadata, timeout_ms });
    }
    let mut reads = Vec::new();
    for _ in 0..1 + dice.size_below(GATHERED_MAX) {
        let spans = spans(dice, 3);
        let end = end(dice, &spans);
        reads.push(GatherRead { id: ids[dice.size_below(ids.len())], spans, end });
    }
    let mut request = GatherRequest { reads };
    while !request.is_valid() {
        request.reads.pop();
    }
    Question::Many(request)
}

/// What is wrong with parts of one object.
pub(super) fn check_parts(
    request: &ReadRequest,
    parts: &Parts,
    held: Option<&Held>,
    puts: &[Put],
) -> Result<Birth, String> {
    let Parts { birth, content, .. } = *parts;
    let is_it = |put: &&Put| (put.id, put.birth) == (request.id, birth);
    let Some(put) = puts.iter().find(is_it) else {
        return Err(format!("parts of what was never put: {parts:?}"));
    };
    let sizes = |content: &Content| (content.data_bytes, content.metadata_bytes);
    if sizes(&put.content) != sizes(&content) {
        return Err(format!("{put:?} is said to have {content:?}"));
    }
    if request.end > content.data_bytes || request.birth.is_some_and(|other| other != birth) {
        return Err(format!("{parts:?} does not answer {request:?}"));
    }
    let wanted = Pieces::of_spans(request.id, birth, &request.spans_of(&content));
    let is_right = match held {
        Some(held) => held.bytes() == wanted.bytes() && held.has(0, &wanted),
        None => wanted.bytes() == 0,
    };
    is_right.then_some(birth).ok_or_else(|| format!("wrong bytes for {request:?}: {held:?}"))
}

/// The incarnation whose parts a gather brought, or what is wrong with them; `None` where there are
/// no bytes that could say which.
pub(super) fn check_gathered(
    read: &GatherRead,
    gathered: &Gathered,
    held: Option<&Held>,
    puts: &[Put],
) -> Result<Option<Birth>, String> {
    let Gathered::Parts { offset, data_bytes, .. } = *gathered else {
        return Err(format!("{gathered:?} has no parts"));
    };
    let spans = within(&read.spans, data_bytes);
    let is_it = |put: &&Put| {
        let wanted = Pieces::of_spans(read.id, put.birth, &spans);
        let is_there = wanted.bytes() == 0 || held.is_some_and(|held| held.has(offset, &wanted));
        put.id == read.id && put.content.data_bytes == data_bytes && is_there
    };
    let found = puts.iter().find(is_it).filter(|_| read.end <= data_bytes);
    let found = found.ok_or_else(|| format!("wrong bytes for {read:?}: {gathered:?}, {held:?}"))?;
    Ok((!spans.is_empty()).then_some(found.birth))
}
