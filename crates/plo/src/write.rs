//! From tables to the bytes of an object.
//!
//! A [`Plan`] has the layout. The bytes are written either into one piece of memory
//! ([`Plan::write_front`], then the heap by its owner), or given as pieces for a gathering write
//! ([`Plan::front`] and the heap's pieces).

use crate::codes::limit;
use crate::error::Result;
use crate::layout::{Form, Layout, header_bytes};
use crate::messages::{BODY_AT, END_MARKER, SCHEMA_MESSAGE};
use crate::sizes::{Sizes, at};
use crate::stream::batch_message;
use crate::tables::Tables;

/// How the small form starts.
pub const SMALL_MAGIC: [u8; 4] = *b"PLO1";

/// A piece of an object.
#[derive(Clone, Copy)]
enum Part<'p, 't> {
    /// Bytes that are made for it.
    Own(&'p [u8]),
    /// A buffer of a table.
    Buffer(&'t [u8]),
}

impl<'p, 't: 'p> Part<'p, 't> {
    #[inline]
    fn bytes(self) -> &'p [u8] {
        match self {
            Self::Own(bytes) | Self::Buffer(bytes) => bytes,
        }
    }
}

/// Which form to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormChoice {
    /// The small form for small objects, the stream form for others.
    #[default]
    Auto,
    /// The stream form.
    Stream,
    /// The small form, for objects below 4 GiB.
    Small,
}

/// The layout of tables that won't change any more.
#[derive(Clone, Debug)]
pub struct Plan {
    layout: Layout,
    heap_bytes: u64,
}

/// Copies bytes that are mostly few, for which a call of `memcpy` would take longer.
#[inline]
fn copy_few(bytes: &[u8], room: &mut [u8]) {
    const FEW: usize = 64;
    let room = &mut room[..bytes.len()];
    if bytes.len() > FEW {
        room.copy_from_slice(bytes);
        return;
    }
    let (words, rest) = bytes.as_chunks::<8>();
    let (room_words, room_rest) = room.as_chunks_mut::<8>();
    room_words.iter_mut().zip(words).for_each(|(room, word)| *room = *word);
    room_rest.iter_mut().zip(rest).for_each(|(room, byte)| *room = *byte);
}

/// The layout of tables in the small form, without looking at those that are empty.
#[inline]
fn small_layout(tables: &Tables, sizes: &Sizes, present: u64) -> Layout {
    let mut end = header_bytes(present);
    tables.visit(false, |_, buffers| {
        end += buffers.iter().map(|b| (b.len() as u64).next_multiple_of(8)).sum::<u64>();
    });
    Layout::small_ending_at(end, sizes.get(at::HEAP_BYTES))
}

impl Plan {
    /// Lays tables out.
    pub fn of(tables: &Tables, wanted: FormChoice) -> Result<Self> {
        let (sizes, present) = tables.sizes()?;
        let heap_bytes = sizes.get(at::HEAP_BYTES);
        let most = match wanted {
            FormChoice::Auto => limit::SMALL_FORM_BYTES_MAX,
            FormChoice::Stream => 0,
            FormChoice::Small => u64::from(u32::MAX),
        };
        if most != 0 {
            let layout = small_layout(tables, &sizes, present);
            if layout.bytes <= most {
                return Ok(Self { layout, heap_bytes });
            }
        }
        Ok(Self { layout: Layout::of(&sizes, Form::Stream), heap_bytes })
    }

    /// Bytes of the object.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes
    }

    /// The form.
    pub fn form(&self) -> Form {
        self.layout.form
    }

    /// Where the heap's data starts: the length of the front.
    pub fn heap_at(&self) -> u64 {
        self.layout.heap_at
    }

    /// Bytes of the heap's data.
    pub fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }

    /// The bytes after the heap's data.
    pub fn tail(&self) -> &'static [u8] {
        match self.layout.form {
            Form::Stream => &END_MARKER,
            Form::Small => &[],
        }
    }

    /// Writes everything before the heap's data. `front` is [`Self::heap_at`] bytes long.
    pub fn write_front(&self, tables: &Tables, front: &mut [u8]) {
        if self.layout.form == Form::Small {
            // Most of a small object is padding and a few bytes here and there.
            front.fill(0);
            self.pieces(tables, |at, part| copy_few(part.bytes(), &mut front[at..]));
            return;
        }
        let mut end = 0;
        self.pieces(tables, |at, part| {
            let bytes = part.bytes();
            front[end..at].fill(0);
            end = at + bytes.len();
            front[at..end].copy_from_slice(bytes);
        });
        front[end..].fill(0);
    }

    /// Everything before the heap's data, in its own memory.
    pub fn front(&self, tables: &Tables) -> Vec<u8> {
        let mut front = vec![0; self.heap_at() as usize];
        self.write_front(tables, &mut front);
        front
    }

    /// Everything before the heap's data as parts to be gathered, the tables' own memory where it
    /// lies and the rest in `glue`.
    pub fn parts<'t>(&self, tables: &'t Tables, glue: &'t mut Vec<u8>) -> Vec<&'t [u8]> {
        // Where each part is: in the glue up to an offset, then a table's buffer.
        let (mut cuts, mut end) = (Vec::new(), 0);
        self.pieces(tables, |at, part| {
            glue.resize(glue.len() + at - end, 0);
            end = at + part.bytes().len();
            match part {
                Part::Buffer(buffer) => cuts.push((glue.len(), buffer)),
                Part::Own(bytes) => glue.extend_from_slice(bytes),
            }
        });
        glue.resize(glue.len() + self.heap_at() as usize - end, 0);
        let (mut parts, mut from) = (Vec::with_capacity(2 * cuts.len() + 1), 0);
        for (to, buffer) in cuts {
            parts.push(&glue[from..to]);
            parts.push(buffer);
            from = to;
        }
        parts.push(&glue[from..]);
        parts
    }

    /// Gives every piece before the heap's data with its offset, in order.
    #[inline]
    fn pieces<'t>(&self, tables: &'t Tables, mut give: impl FnMut(usize, Part<'_, 't>)) {
        let form = self.layout.form;
        let mut end = match form {
            Form::Small => self.small_header(tables, &mut give),
            Form::Stream => self.stream_header(tables, &mut give),
        };
        let outer = form == Form::Stream;
        let align = form.align() as usize;
        tables.visit(outer, |entries, buffers| {
            if outer {
                let offsets = [[0; 4], (entries as u32).to_le_bytes()];
                give(end, Part::Own(offsets.as_flattened()));
                end += align;
            }
            if entries == 0 {
                return;
            }
            for buffer in buffers.iter().filter(|buffer| !buffer.is_empty()) {
                give(end, Part::Buffer(buffer));
                end = (end + buffer.len()).next_multiple_of(align);
            }
        });
    }

    /// Writes the header of the small form, and returns where it ends.
    fn small_header<'t>(
        &self,
        tables: &'t Tables,
        give: &mut impl FnMut(usize, Part<'_, 't>),
    ) -> usize {
        let mut header = [[0; 4]; 4 + crate::sizes::COUNT];
        let (sizes, mut present) = tables.count();
        header[0] = SMALL_MAGIC;
        header[1] = (self.layout.bytes as u32).to_le_bytes();
        header[2] = (present as u32).to_le_bytes();
        header[3] = ((present >> 32) as u32).to_le_bytes();
        let mut count = 4;
        while present != 0 {
            header[count] = (sizes.get(present.trailing_zeros() as usize) as u32).to_le_bytes();
            present &= present - 1;
            count += 1;
        }
        let header = header[..count].as_flattened();
        give(0, Part::Own(header));
        header.len().next_multiple_of(8)
    }

    /// Writes the messages of the stream form, and returns where they end.
    fn stream_header<'t>(
        &self,
        tables: &'t Tables,
        give: &mut impl FnMut(usize, Part<'_, 't>),
    ) -> usize {
        give(0, Part::Own(SCHEMA_MESSAGE));
        let batch = batch_message(&tables.count().0, &self.layout);
        give(SCHEMA_MESSAGE.len(), Part::Own(&batch));
        BODY_AT as usize
    }
}
