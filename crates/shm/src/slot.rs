//! One slot of the index: 64 bytes, one cache line, one object.
//!
//! Word 0 holds the state in its two low bits and the serial of the incarnation above them. Only
//! the daemon writes slots:
//!
//! ```text
//!   empty ──insert──> writing ──fields──> live <──show/hide──> hidden ──remove──> empty
//! ```
//!
//! A reader takes the fields between two loads of word 0 that must agree. Serials never come back,
//! so equal words mean that the slot held this very incarnation all the while.

use plasmon_proto::extent::{ExtentId, Placement};
use plasmon_proto::id::ObjectId;
use plasmon_proto::limits::{ATTRIBUTES_BYTES_MAX, OBJECT_ALIGN, OBJECT_BYTES_MAX};
use plasmon_proto::object::{ObjectMeta, Policy, Sizes, Traits};

use crate::sync::{AtomicU64, Ordering, fence};

/// Words in a slot.
pub const SLOT_WORDS: usize = 8;

/// Bytes in a slot.
pub const SLOT_BYTES: u64 = 64;

/// The largest serial: 62 bits.
pub const SERIAL_MAX: u64 = (1 << 62) - 1;

/// Bits of the two fields that share their word with a part of the extent's identity.
const WIDE_BITS: u32 = 48;

const WIDE_MAX: u64 = (1 << WIDE_BITS) - 1;

/// Bits of the time of creation.
const CREATED_BITS: u32 = 44;

/// The latest time of creation that a slot can say: in the year 2527.
pub const CREATED_MS_MAX: u64 = (1 << CREATED_BITS) - 1;

/// Bits of a span of time in a slot: 5 of its magnitude, above 6 of its value. Of these 11, the
/// lower 4 lie above the time of creation, the others at the top of the last word.
const SPAN_LOW_BITS: u32 = WIDE_BITS - CREATED_BITS;
const SPAN_HIGH_AT: u32 = 57;

/// A span of time as a slot keeps it: at least as long, and at most a 64th longer; below 64 ms it
/// is exact.
fn encode_span(ms: u64) -> u64 {
    let mut exponent = 0;
    // The value is ((64 + mantissa) << exponent) - 64, so that none is there twice.
    while exponent < 31 && ms.saturating_add(64) > 127 << exponent {
        exponent += 1;
    }
    let mantissa = ms.saturating_add(64).div_ceil(1 << exponent).saturating_sub(64);
    exponent << 6 | mantissa.min(63)
}

fn decode_span(code: u64) -> u64 {
    ((64 + (code & 63)) << (code >> 6 & 31)) - 64
}

const _: () = assert!(OBJECT_BYTES_MAX <= WIDE_MAX, "the bytes of every object fit their field");

/// The extent's identity, whose 64 bits lie in the high parts of three words.
#[inline]
fn extent_of(words: &[u64; SLOT_WORDS]) -> ExtentId {
    ExtentId(words[3] >> 32 | words[5] >> WIDE_BITS << 32 | words[6] >> WIDE_BITS << 48)
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// Nothing: never used, or a tombstone when the word still carries a serial.
    Empty = 0,
    /// The daemon is filling it.
    Writing = 1,
    /// A sealed object.
    Live = 2,
    /// A sealed object that may not be pinned any more: being evicted, spilled or deleted.
    Hidden = 3,
}

/// Word 0 of a slot, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(pub u64);

impl Head {
    /// The word of a slot in `state` that belongs to incarnation `serial`.
    pub const fn new(serial: u64, state: State) -> Self {
        Self(serial << 2 | state as u64)
    }

    /// The state.
    #[inline]
    pub const fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Empty,
            1 => State::Writing,
            2 => State::Live,
            _ => State::Hidden,
        }
    }

    /// The serial.
    #[inline]
    pub const fn serial(self) -> u64 {
        self.0 >> 2
    }

    /// Whether a probe ends here.
    #[inline]
    pub const fn ends_probe(self) -> bool {
        self.0 == 0
    }

    /// Whether the slot was used, is free, and must be passed by a probe.
    #[inline]
    pub const fn is_tombstone(self) -> bool {
        self.0 & 3 == 0 && self.0 != 0
    }
}

/// Everything that a slot says about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotImage {
    /// The number of this incarnation: unique forever, at most [`SERIAL_MAX`], never 0.
    pub serial: u64,
    /// The id.
    pub id: ObjectId,
    /// Where its parts start: the offset is a multiple of 64, below 256 GiB.
    pub placement: Placement,
    /// Sizes, traits and times.
    pub meta: ObjectMeta,
    /// The daemon's number for the object.
    pub record: u32,
}

impl SlotImage {
    /// Whether every field fits the bits that a slot has for it.
    pub const fn fits(&self) -> bool {
        let (Placement { offset, .. }, ObjectMeta { sizes, created_ms, .. }) =
            (self.placement, self.meta);
        sizes.data <= WIDE_MAX
            && created_ms <= CREATED_MS_MAX
            && self.serial != 0
            && self.serial <= SERIAL_MAX
            && offset.is_multiple_of(OBJECT_ALIGN)
            && offset / OBJECT_ALIGN <= u32::MAX as u64
            && sizes.metadata <= u32::MAX as u64
            && sizes.attributes <= ATTRIBUTES_BYTES_MAX as u64
    }

    /// The eight words of a slot that holds this object in `state`. The image must
    /// [fit](Self::fits).
    pub fn encode(&self, state: State) -> [u64; SLOT_WORDS] {
        let Self {
            placement, meta: ObjectMeta { sizes, traits, created_ms, construct_ms }, ..
        } = self;
        let key = Key::of(&self.id);
        let extent = placement.extent.0;
        let span = encode_span(*construct_ms);
        let (span_low, span_high) = (span & ((1 << SPAN_LOW_BITS) - 1), span >> SPAN_LOW_BITS);
        [
            Head::new(self.serial, state).0,
            key.words[0],
            key.words[1],
            key.words[2] | extent << 32,
            (placement.offset / OBJECT_ALIGN) | (sizes.metadata << 32),
            sizes.data | (extent >> 32 & 0xffff) << WIDE_BITS,
            created_ms | span_low << CREATED_BITS | (extent >> 48) << WIDE_BITS,
            u64::from(self.record)
                | sizes.attributes << 32
                | u64::from(traits.tag) << 47
                | u64::from(traits.policy == Policy::Cache) << 55
                | u64::from(traits.owned) << 56
                | span_high << SPAN_HIGH_AT,
        ]
    }

    /// Reads eight words back, whatever they are.
    #[inline]
    pub fn decode(words: &[u64; SLOT_WORDS]) -> Self {
        let low = |word: u64| word & u64::from(u32::MAX);
        let sizes = Sizes {
            data: words[5] & WIDE_MAX,
            metadata: words[4] >> 32,
            attributes: words[7] >> 32 & ATTRIBUTES_BYTES_MAX as u64,
        };
        let policy = if words[7] >> 55 & 1 == 0 { Policy::Keep } else { Policy::Cache };
        let tag = (words[7] >> 47) as u8;
        let construct_ms = decode_span(
            words[6] >> CREATED_BITS & ((1 << SPAN_LOW_BITS) - 1)
                | words[7] >> SPAN_HIGH_AT << SPAN_LOW_BITS,
        );
        Self {
            serial: Head(words[0]).serial(),
            id: ObjectId::from_words([words[1], words[2], words[3]]),
            placement: Placement { extent: extent_of(words), offset: low(words[4]) * OBJECT_ALIGN },
            meta: ObjectMeta {
                sizes,
                traits: Traits { policy, tag, owned: words[7] >> 56 & 1 != 0 },
                created_ms: words[6] & CREATED_MS_MAX,
                construct_ms,
            },
            record: words[7] as u32,
        }
    }
}

/// What a slot says, as it says it.
///
/// A reader carries this around and not a [`SlotImage`]: words that were loaded once stay in
/// registers until they are stored once, and none of them has values that a result type would hide
/// its own tag in, so that no step in between has to move the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotWords([u64; SLOT_WORDS]);

impl SlotWords {
    /// Everything, taken apart.
    #[inline]
    pub(crate) fn image(&self) -> SlotImage {
        SlotImage::decode(&self.0)
    }

    /// The extent of [`SlotImage::placement`].
    #[inline]
    pub(crate) fn extent(&self) -> ExtentId {
        extent_of(&self.0)
    }

    /// The offset of [`SlotImage::placement`].
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        (self.0[4] & u64::from(u32::MAX)) * OBJECT_ALIGN
    }

    /// Bytes of data.
    #[inline]
    pub(crate) fn data(&self) -> u64 {
        self.0[5] & WIDE_MAX
    }

    /// Bytes of metadata.
    #[inline]
    pub(crate) fn metadata(&self) -> u64 {
        self.0[4] >> 32
    }

    /// [`SlotImage::record`].
    #[inline]
    pub(crate) fn record(&self) -> u32 {
        self.0[7] as u32
    }
}

/// An id as the three words that a slot holds it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Bytes 0-7, 8-15 and 16-19; the high half of the last one is 0.
    pub(crate) words: [u64; 3],
}

impl Key {
    #[inline]
    pub(crate) fn of(id: &ObjectId) -> Self {
        Self { words: id.words() }
    }

    /// The hash that decides the home slot. It is part of the format: every process computes it.
    ///
    /// Two folded multiplications: each of the 160 bits reaches the high bits, which choose the
    /// slot.
    #[inline]
    pub(crate) fn hash(&self, key: &HashKey) -> u64 {
        let [first, second, third, last] = key.0;
        let mixed = fold(self.words[0] ^ first, self.words[1] ^ second);
        fold(mixed ^ self.words[2] ^ third, last)
    }
}

/// The numbers that decide which ids share a home slot. They are drawn at random for a store, so
/// that such ids cannot be prepared, and again for a table in which too many ids crowd together.
/// Clients need them and can read them: what bounds a probe is [`crate::table::PROBES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey(pub [u64; 4]);

impl HashKey {
    /// A key for tests and examples: the fractions of the square roots of 2 (made odd), 3, 5 and 7.
    pub const EXAMPLE: Self = Self([
        0x6a09_e667_f3bc_c909,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
    ]);
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// The home slot of an id with this hash in a table of `slots` slots: scaled, not masked, so any
/// number of slots works and a larger table keeps the order of the smaller one.
#[inline]
pub(crate) const fn home(hash: u64, slots: usize) -> usize {
    ((hash as u128 * slots as u128) >> 64) as usize
}

/// A slot where it lies.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    words: [AtomicU64; SLOT_WORDS],
}

impl Slot {
    /// A never used slot for the models; mapped slots come zeroed from the kernel.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Word 0. Pairs with the release in [`Slot::publish`]: the fields belong to this head or to a
    /// later one, which [`Slot::head_again`] tells apart.
    #[inline]
    pub(crate) fn head(&self) -> Head {
        Head(self.words[0].load(Ordering::Acquire))
    }

    /// Word 0 once more, in the single order that pins and hiding agree on.
    #[inline]
    pub(crate) fn head_again(&self) -> Head {
        Head(self.words[0].load(Ordering::SeqCst))
    }

    /// Whether the slot holds the id of `key`; the answer counts only if the head stays the same.
    #[inline]
    pub(crate) fn holds(&self, key: &Key) -> bool {
        self.words[1].load(Ordering::Relaxed) == key.words[0]
            && self.words[2].load(Ordering::Relaxed) == key.words[1]
            && self.words[3].load(Ordering::Relaxed) as u32 == key.words[2] as u32
    }

    /// The fields under `head`, for a reader who already knows that the id is that of `key`. They
    /// count only if [`Slot::head_again`], called after an acquire fence, is the same.
    #[inline]
    pub(crate) fn fields(&self, head: Head, key: &Key) -> SlotWords {
        let word = |index: usize| self.words[index].load(Ordering::Relaxed);
        let third = word(3) & !u64::from(u32::MAX) | key.words[2];
        SlotWords([head.0, key.words[0], key.words[1], third, word(4), word(5), word(6), word(7)])
    }

    /// All words, for the one process that writes them.
    pub(crate) fn image(&self) -> SlotImage {
        SlotImage::decode(&std::array::from_fn(|word| self.words[word].load(Ordering::Relaxed)))
    }

    /// Fills the slot with `image` and ends in `state`. Only the daemon calls it, on a free slot.
    pub(crate) fn publish(&self, image: &SlotImage, state: State) {
        let words = image.encode(state);
        self.words[0].store(Head::new(image.serial, State::Writing).0, Ordering::Relaxed);
        // Pairs with the acquire fence of a reader: one that sees a new field sees at least
        // `writing`. For a slot that was hidden before, the fence in `hide` says as much already;
        // this one also covers a slot that a restarted daemon emptied.
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(words).skip(1) {
            word.store(value, Ordering::Relaxed);
        }
        self.words[0].store(words[0], Ordering::Release);
    }

    /// Changes the state of the incarnation in the slot. Sequentially consistent, because hiding
    /// must come before the look at the ledgers in the order that all threads agree on.
    pub(crate) fn set_state(&self, state: State) {
        let serial = self.head().serial();
        self.words[0].store(Head::new(serial, state).0, Ordering::SeqCst);
    }

    /// Makes the slot one that ends a probe.
    pub(crate) fn clear(&self) {
        self.words[0].store(0, Ordering::Release);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image() -> SlotImage {
        SlotImage {
            serial: SERIAL_MAX,
            id: ObjectId::new(std::array::from_fn(|i| i as u8 + 1)),
            placement: placement(64 * u64::from(u32::MAX)),
            meta: meta(),
            record: u32::MAX,
        }
    }

    fn placement(offset: u64) -> Placement {
        Placement { extent: ExtentId(u64::MAX), offset }
    }

    fn meta() -> ObjectMeta {
        ObjectMeta {
            sizes: sizes(),
            traits: Traits { policy: Policy::Cache, tag: u8::MAX, owned: true },
            created_ms: CREATED_MS_MAX,
            construct_ms: decode_span(0x7ff),
        }
    }

    fn sizes() -> Sizes {
        let attributes = ATTRIBUTES_BYTES_MAX as u64;
        Sizes { data: WIDE_MAX, metadata: u64::from(u32::MAX), attributes }
    }

    /// After a restart a time to live counted from the creation, because a slot did not say when
    /// its object was sealed.
    #[test]
    fn a_span_is_kept_with_a_64th_to_spare_and_never_shorter() {
        for ms in (0..100_000).chain([1 << 20, (1 << 31) + 1, 3_600_000, 86_400_000]) {
            let kept = decode_span(encode_span(ms));
            assert!(ms <= kept && kept <= ms + (ms + 64) / 64, "{ms}: {kept}");
            assert!(ms >= 64 || kept == ms, "{ms}: {kept}");
        }
        for code in 0..1 << 11 {
            assert_eq!(encode_span(decode_span(code)), code, "{code}");
        }
        assert_eq!(encode_span(u64::MAX), (1 << 11) - 1);
    }

    #[test]
    fn an_image_at_its_limits_fits_and_comes_back() {
        let full = image();
        assert!(full.fits());
        assert_eq!(SlotImage::decode(&full.encode(State::Live)), full);
        assert_eq!(Head(full.encode(State::Hidden)[0]).state(), State::Hidden);
        let placement = Placement { extent: ExtentId(0x0123_4567_89ab_cdef), offset: 64 };
        let traits = Traits { owned: true, ..Traits::default() };
        let meta = ObjectMeta { traits, sizes: Sizes { attributes: 0, ..sizes() }, ..meta() };
        let plain = SlotImage { placement, meta, ..full };
        assert_eq!(SlotImage::decode(&plain.encode(State::Live)), plain);
    }

    #[test]
    fn an_image_past_its_limits_does_not_fit() {
        let sized = |sizes| SlotImage { meta: ObjectMeta { sizes, ..meta() }, ..image() };
        let attributes = ATTRIBUTES_BYTES_MAX as u64 + 1;
        let late = ObjectMeta { created_ms: CREATED_MS_MAX + 1, ..meta() };
        for wrong in [
            SlotImage { serial: 0, ..image() },
            SlotImage { serial: SERIAL_MAX + 1, ..image() },
            SlotImage { placement: placement(32), ..image() },
            SlotImage { placement: placement(64 << 32), ..image() },
            SlotImage { meta: late, ..image() },
            sized(Sizes { metadata: 1 << 32, ..sizes() }),
            sized(Sizes { data: WIDE_MAX + 1, ..sizes() }),
            sized(Sizes { attributes, ..sizes() }),
        ] {
            assert!(!wrong.fits(), "{wrong:?}");
        }
    }

    #[test]
    fn the_hash_is_a_format() {
        let hash = |id: [u8; 20]| Key::of(&ObjectId::new(id)).hash(&HashKey::EXAMPLE);
        assert_eq!(hash([0; 20]), 0x8e96_060d_57c9_a260);
        assert_eq!(hash(std::array::from_fn(|i| i as u8)), 0x424e_ef2e_74d3_14cb);
    }

    #[test]
    fn counting_ids_spread_over_the_table() {
        // Ids that differ in one byte only, in whatever place, must not share a home too often.
        for byte in 0..20 {
            let homes: std::collections::HashSet<_> = (0..=255u8)
                .map(|value| {
                    let mut id = [0; 20];
                    id[byte] = value;
                    home(Key::of(&ObjectId::new(id)).hash(&HashKey::EXAMPLE), 1024)
                })
                .collect();
            assert!(homes.len() > 200, "byte {byte}: {} homes", homes.len());
        }
    }

    #[test]
    fn homes_lie_in_the_table_and_keep_their_order_when_it_grows() {
        let hashes = [0, 1, 1 << 32, u64::MAX / 3, u64::MAX / 2, u64::MAX];
        for slots in [1usize, 7, 64, 96, 1 << 30] {
            let homes = hashes.map(|hash| home(hash, slots));
            assert!(homes.is_sorted() && homes[5] == slots - 1, "{homes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_words_decode_and_what_they_say_encodes_to_the_same(words: [u64; 8]) {
            let image = SlotImage::decode(&words);
            let state = Head(words[0]).state();
            prop_assert_eq!(SlotImage::decode(&image.encode(state)), image);
        }
    }
}
