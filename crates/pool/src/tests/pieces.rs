//! Which bytes of which object lie where, for simulations: instead of the bytes, or made into them.

use plasmon_proto::ObjectId;
use plasmon_proto::parts::Span;
use plasmon_proto::pool::Birth;

/// Bytes of an incarnation, or the zeros between the parts of two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    of: Option<(ObjectId, Birth)>,
    span: Span,
}

/// Pieces, one after the other. Equal bytes of equal objects are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces(Vec<Piece>);

impl Pieces {
    /// These bytes of an object.
    pub(super) fn of_spans(id: ObjectId, birth: Birth, spans: &[Span]) -> Self {
        let mut pieces = Self::default();
        spans.iter().for_each(|span| pieces.push(Piece { of: Some((id, birth)), span: *span }));
        pieces
    }

    /// All bytes of an object.
    pub(super) fn whole(id: ObjectId, birth: Birth, bytes: u64) -> Self {
        Self::of_spans(id, birth, &[Span { offset: 0, bytes }])
    }

    /// So many zeros.
    pub(super) fn zeros(bytes: u64) -> Self {
        let mut pieces = Self::default();
        pieces.push(Piece { of: None, span: Span { offset: 0, bytes } });
        pieces
    }

    fn push(&mut self, piece: Piece) {
        if piece.span.bytes == 0 {
            return;
        }
        if let Some(last) = self.0.last_mut()
            && last.of == piece.of
            && (piece.of.is_none() || last.span.end() == piece.span.offset)
        {
            last.span.bytes += piece.span.bytes;
            return;
        }
        self.0.push(piece);
    }

    pub(super) fn append(&mut self, other: &Self) {
        other.0.iter().for_each(|piece| self.push(*piece));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|piece| piece.span.bytes).sum()
    }

    /// Some of them, as far as they are there.
    pub(super) fn part(&self, offset: u64, bytes: u64) -> Self {
        let (mut part, mut at, end) = (Self::default(), 0, offset.saturating_add(bytes));
        for Piece { of, span } in &self.0 {
            let (from, to) = (offset.clamp(at, at + span.bytes), end.clamp(at, at + span.bytes));
            let skipped = if of.is_some() { from - at } else { 0 };
            let span_of = Span { offset: span.offset + skipped, bytes: to - from };
            part.push(Piece { of: *of, span: span_of });
            at += span.bytes;
        }
        part
    }

    /// The bytes themselves.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        for Piece { of, span } in &self.0 {
            match of {
                None => bytes.resize(bytes.len() + span.bytes as usize, 0),
                Some((id, birth)) => {
                    let seed = seed_of(id, birth);
                    bytes.extend((span.offset..span.end()).map(|at| byte_at(seed, at)));
                }
            }
        }
        bytes
    }
}

/// What lies in memory: the bytes of a message, or what stands for the bytes of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Bytes(Vec<u8>),
    Pieces(Pieces),
}

impl Held {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pieces(pieces) => pieces.bytes(),
        }
    }

    /// Whether these lie at an offset.
    pub(super) fn has(&self, offset: u64, wanted: &Pieces) -> bool {
        match self {
            Self::Bytes(bytes) => {
                let from = bytes.get(offset as usize..).unwrap_or_default();
                from.starts_with(&wanted.to_bytes())
            }
            Self::Pieces(pieces) => pieces.part(offset, wanted.bytes()) == *wanted,
        }
    }
}

fn seed_of(id: &ObjectId, birth: &Birth) -> u64 {
    let sum = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    let of_id = id.as_bytes().iter().fold(birth.serial, sum);
    of_id ^ u64::from(birth.slot.0) << 32 ^ birth.boot << 48
}

fn byte_at(seed: u64, at: u64) -> u8 {
    let mixed = (seed ^ (at / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed.to_le_bytes()[(at % 8) as usize]
}

#[test]
fn pieces_are_cut_and_put_together() {
    let birth = Birth { slot: plasmon_proto::pool::Slot(1), boot: 2, serial: 3 };
    let id = ObjectId::pooled([1; 12], None);
    let whole = Pieces::whole(id, birth, 1000);
    assert_eq!(whole.part(100, 50).to_bytes(), whole.to_bytes()[100..150]);
    let mut all = whole.part(0, 10);
    all.append(&whole.part(10, 20));
    assert_eq!(all, whole.part(0, 30));
    all.append(&Pieces::zeros(4));
    all.append(&whole.part(500, 5));
    let part = all.part(28, 8);
    assert_eq!(part.to_bytes(), all.to_bytes()[28..36]);
    let other = Pieces::whole(id, Birth { serial: 4, ..birth }, 1000);
    assert_ne!(other.to_bytes(), whole.to_bytes());
    for held in [Held::Pieces(all.clone()), Held::Bytes(all.to_bytes())] {
        assert!(held.has(34, &whole.part(500, 5)) && !held.has(33, &whole.part(500, 5)));
        assert!(!held.has(36, &whole.part(502, 9)), "beyond the end");
        assert_eq!(held.bytes(), 39);
    }
    assert_eq!(all.part(30, 100).bytes(), 9);
}
