//! The strings of one column in a bucket.
//!
//! They are scattered like everything else: their bytes one after the other, and their lengths to
//! where the ends of the sorted strings will be. So a bucket has all it needs in the caches, where
//! reading each string from its place in the table would wait for the memory.

use bytemuck::cast_slice_mut;

/// The strings of a bucket, as they were scattered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strings<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where each begins, and then where the last one ends.
    pub(crate) starts: &'a [u64],
}

impl<'a> Strings<'a> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        &self.bytes[self.starts[row] as usize..self.starts[row + 1] as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.starts.windows(2).map(move |ends| &bytes[ends[0] as usize..ends[1] as usize])
    }
}

/// Where strings of these lengths begin, and then where the last one ends.
pub(crate) fn starts(lengths: &[u8], large: bool, starts: &mut Vec<u64>) {
    let mut end = 0;
    let mut add = |length: u64| {
        end += length;
        end
    };
    starts.clear();
    starts.push(0);
    if large {
        starts.extend(bytemuck::cast_slice::<u8, u64>(lengths).iter().map(|length| add(*length)));
    } else {
        let lengths = bytemuck::cast_slice::<u8, u32>(lengths);
        starts.extend(lengths.iter().map(|length| add(u64::from(*length))));
    }
}

/// Puts strings in order, if they are not, and writes their ends over their lengths, counted from
/// `first`. The order has the rows' places; `room` is scratch space.
pub(crate) fn put_in_order(
    values: &mut [u8],
    (ends, large, first): (&mut [u8], bool, u64),
    order: Option<&[u32]>,
    (begins, spare): (&mut Vec<u64>, &mut Vec<[u64; 4]>),
) {
    starts(ends, large, begins);
    if let Some(order) = order {
        spare.resize(values.len().div_ceil(32).max(spare.len()), [0; 4]);
        let before: &mut [u8] = &mut cast_slice_mut(spare)[..values.len()];
        before.copy_from_slice(values);
        let strings = Strings { bytes: before, starts: begins };
        if large {
            move_strings(strings, order, values, first, cast_slice_mut::<u8, u64>(ends), |end| end);
        } else {
            move_strings(strings, order, values, first, cast_slice_mut::<u8, u32>(ends), |e| {
                e as u32
            });
        }
    } else if large {
        let ends = cast_slice_mut::<u8, u64>(ends).iter_mut();
        ends.zip(&begins[1..]).for_each(|(end, found)| *end = first + found);
    } else {
        let ends = cast_slice_mut::<u8, u32>(ends).iter_mut();
        ends.zip(&begins[1..]).for_each(|(end, found)| *end = (first + found) as u32);
    }
}

#[inline(always)]
fn move_strings<E>(
    strings: Strings<'_>,
    order: &[u32],
    values: &mut [u8],
    first: u64,
    ends: &mut [E],
    end_of: impl Fn(u64) -> E,
) {
    let mut filled = 0;
    for (end, row) in ends.iter_mut().zip(order) {
        let text = strings.get(*row as usize);
        copy(&mut values[filled..], text);
        filled += text.len();
        *end = end_of(first + filled as u64);
    }
}

/// Copies a text. Most are short, and two copies of one size that overlap are faster than a call.
#[inline(always)]
pub(crate) fn copy(to: &mut [u8], text: &[u8]) {
    let count = text.len();
    macro_rules! overlapping {
        ($half:literal) => {{
            to[..$half].copy_from_slice(&text[..$half]);
            to[count - $half..count].copy_from_slice(&text[count - $half..]);
        }};
    }
    match count {
        0 => {}
        1..=3 => to.iter_mut().zip(text).for_each(|(to, byte)| *to = *byte),
        4..=7 => overlapping!(4),
        8..=16 => overlapping!(8),
        17..=32 => overlapping!(16),
        _ => to[..count].copy_from_slice(text),
    }
}
