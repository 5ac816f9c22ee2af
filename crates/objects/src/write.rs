//! From tables to the bytes of an object.
//!
//! A [`Plan`] knows the layout. The bytes are written either into one piece of memory
//! ([`Plan::write_front`], then the heap by its owner), or given as pieces for a gathering write
//! ([`Plan::front`] and the heap's pieces).

use crate::codes::limit;
use crate::error::Result;
use crate::layout::{ARROW_BUFFERS, ArrowBuffer, END_MARKER, Form, HEAP_ALIGN, HEAP_DATA, Layout};
use crate::sizes::{Sizes, at};
use crate::stream::{SCHEMA_MESSAGE, batch_message};
use crate::tables::Tables;

/// How the small form starts.
pub const SMALL_MAGIC: [u8; 4] = *b"PLO1";

/// Which form to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
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
    sizes: Sizes,
    layout: Layout,
}

impl Plan {
    /// Lays tables out.
    pub fn of(tables: &Tables, wanted: Wanted) -> Result<Self> {
        let sizes = tables.sizes()?;
        let small = Layout::of(&sizes, Form::Small);
        let fits = match wanted {
            Wanted::Auto => small.bytes <= limit::SMALL_FORM_BYTES_MAX,
            Wanted::Stream => false,
            Wanted::Small => small.bytes <= u64::from(u32::MAX),
        };
        let layout = if fits { small } else { Layout::of(&sizes, Form::Stream) };
        Ok(Self { sizes, layout })
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
        self.layout.offsets[HEAP_DATA]
    }

    /// Bytes of the heap's data.
    pub fn heap_bytes(&self) -> u64 {
        self.sizes[at::HEAP_BYTES]
    }

    /// What follows the heap's data.
    pub fn tail(&self) -> &'static [u8] {
        match self.layout.form {
            Form::Stream => &END_MARKER,
            Form::Small => &[],
        }
    }

    /// Writes everything before the heap's data. `front` is [`Self::heap_at`] bytes long.
    pub fn write_front(&self, tables: &Tables, front: &mut [u8]) {
        let mut end = 0;
        self.pieces(tables, |at, piece| {
            front[end..at].fill(0);
            front[at..at + piece.len()].copy_from_slice(piece);
            end = at + piece.len();
        });
        front[end..].fill(0);
    }

    /// Everything before the heap's data, in memory of its own.
    pub fn front(&self, tables: &Tables) -> Vec<u8> {
        let mut front = Vec::with_capacity(self.heap_at() as usize);
        self.pieces(tables, |at, piece| {
            front.resize(at, 0);
            front.extend_from_slice(piece);
        });
        front.resize(self.heap_at() as usize, 0);
        front
    }

    /// Everything before the heap's data as parts to be gathered, the tables' own memory where it
    /// lies and the rest in `glue`.
    pub fn parts<'t>(&self, tables: &'t Tables, glue: &'t mut Vec<u8>) -> Vec<&'t [u8]> {
        // Where each part is: in the glue up to an offset, then a table's buffer.
        let buffers = tables.buffers();
        let (mut cuts, mut end) = (Vec::with_capacity(buffers.len()), 0);
        let mut next = 0;
        self.pieces(tables, |at, piece| {
            glue.resize(glue.len() + at - end, 0);
            end = at + piece.len();
            let known = buffers[next..].iter().position(|buffer| std::ptr::eq(*buffer, piece));
            match known {
                Some(found) => {
                    next += found + 1;
                    cuts.push((glue.len(), buffers[next - 1]));
                }
                None => glue.extend_from_slice(piece),
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
    fn pieces(&self, tables: &Tables, mut give: impl FnMut(usize, &[u8])) {
        match self.layout.form {
            Form::Small => self.small_header(&mut give),
            Form::Stream => self.stream_header(&mut give),
        }
        match self.layout.form {
            Form::Small => {
                for (piece, offset) in tables.buffers().iter().zip(self.layout.offsets) {
                    if !piece.is_empty() {
                        give(offset as usize, piece);
                    }
                }
            }
            Form::Stream => self.stream_body(tables, &mut give),
        }
    }

    fn small_header(&self, give: &mut impl FnMut(usize, &[u8])) {
        let mut header = [[0; 4]; 4 + crate::sizes::COUNT];
        let (mut present, mut count) = (0u64, 4);
        for (number, size) in self.sizes.0.iter().enumerate() {
            if *size != 0 {
                present |= 1 << number;
                header[count] = (*size as u32).to_le_bytes();
                count += 1;
            }
        }
        header[0] = SMALL_MAGIC;
        header[1] = (self.layout.bytes as u32).to_le_bytes();
        header[2] = (present as u32).to_le_bytes();
        header[3] = ((present >> 32) as u32).to_le_bytes();
        give(0, header[..count].as_flattened());
    }

    fn stream_header(&self, give: &mut impl FnMut(usize, &[u8])) {
        give(0, SCHEMA_MESSAGE);
        give(SCHEMA_MESSAGE.len(), &batch_message(&self.sizes, &self.layout));
    }

    fn stream_body(&self, tables: &Tables, give: &mut impl FnMut(usize, &[u8])) {
        let mut end = crate::layout::BODY_AT as usize;
        let buffers = tables.buffers();
        let mut reals = buffers.iter().zip(self.layout.offsets);
        for buffer in ARROW_BUFFERS {
            match buffer {
                ArrowBuffer::Validity => {}
                ArrowBuffer::Outer(number) => {
                    let mut outer = [[0; 4]; 2];
                    outer[1] = (self.sizes[number] as u32).to_le_bytes();
                    give(end, outer.as_flattened());
                    end += HEAP_ALIGN as usize;
                }
                ArrowBuffer::Real => {
                    // The last one is the heap's data, which isn't among these.
                    let Some((piece, offset)) = reals.next() else { return };
                    if !piece.is_empty() {
                        give(offset as usize, piece);
                    }
                    end = (offset as usize + piece.len()).next_multiple_of(HEAP_ALIGN as usize);
                }
            }
        }
    }
}
