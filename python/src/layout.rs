//! The layout of a buffer: elements of one type in a shape, or plain bytes.
//!
//! The buffer protocol, the array interface and DLPack all answer from here, so they agree. An
//! array whose element type has no name in all three (dates, strings, structures, another byte
//! order) is bytes for the first two; DLPack, whose consumers ask for numbers, refuses it.

use std::ffi::CStr;

use plasmon_client::tag;
use plasmon_proto::value::{Order, ValueHeader};

/// The type of elements, by its name in each protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// DLPack's code and bits.
    pub(crate) code: u8,
    pub(crate) bits: u8,
    /// The format of Python's module `struct`; complex numbers as NumPy writes them.
    pub(crate) format: &'static CStr,
    /// The type of the array interface.
    pub(crate) typestr: &'static str,
}

impl Element {
    /// Bytes, which everything is that has no other type.
    pub(crate) const BYTE: Self = Self { code: 1, bits: 8, format: c"B", typestr: "|u1" };

    /// Bytes of one element.
    pub(crate) const fn bytes(self) -> usize {
        self.bits as usize / 8
    }
}

/// The native byte order, as type strings begin.
const NATIVE: &str = if cfg!(target_endian = "little") { "<" } else { ">" };

macro_rules! elements {
    ($(($code:literal, $bits:literal, $format:literal, $name:literal)),* $(,)?) => {
        #[cfg(target_endian = "little")]
        const ELEMENTS: &[Element] = &[$(Element {
            code: $code, bits: $bits, format: $format, typestr: concat!("<", $name),
        }),*];
        #[cfg(target_endian = "big")]
        const ELEMENTS: &[Element] = &[$(Element {
            code: $code, bits: $bits, format: $format, typestr: concat!(">", $name),
        }),*];
    };
}

elements!(
    (0, 16, c"h", "i2"),
    (0, 32, c"i", "i4"),
    (0, 64, c"q", "i8"),
    (1, 16, c"H", "u2"),
    (1, 32, c"I", "u4"),
    (1, 64, c"Q", "u8"),
    (2, 16, c"e", "f2"),
    (2, 32, c"f", "f4"),
    (2, 64, c"d", "f8"),
    (5, 64, c"Zf", "c8"),
    (5, 128, c"Zd", "c16"),
);

/// Elements of one byte have no order.
const BYTES: &[Element] = &[
    Element { code: 0, bits: 8, format: c"b", typestr: "|i1" },
    Element::BYTE,
    Element { code: 6, bits: 8, format: c"?", typestr: "|b1" },
];

/// The element type of a value header's text: NumPy's type string, or a letter of `struct`.
fn element(text: &str) -> Option<Element> {
    let text = match text {
        "?" => "|b1",
        "b" => "|i1",
        "B" => "|u1",
        _ => text,
    };
    let (order, name) = text.split_at_checked(1)?;
    if let Some(letter) = (text.len() == 1).then(|| text.as_bytes()[0]) {
        let wide = |narrow, wide| if size_of::<std::ffi::c_long>() == 8 { wide } else { narrow };
        let letter = match letter {
            b'l' => wide(b'i', b'q'),
            b'L' => wide(b'I', b'Q'),
            b'n' => b'q',
            b'N' => b'Q',
            other => other,
        };
        return ELEMENTS.iter().find(|known| known.format.to_bytes() == [letter]).copied();
    }
    match order {
        "|" => BYTES.iter().find(|known| known.typestr == text).copied(),
        NATIVE => {
            let one = |known: &&Element| &known.typestr[1..] == name;
            ELEMENTS.iter().find(one).or_else(|| BYTES.iter().find(one)).copied()
        }
        _ => None,
    }
}

/// The elements of an object, their extents, and the steps between them in elements.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) element: Element,
    pub(crate) shape: Vec<isize>,
    pub(crate) strides: Vec<isize>,
}

/// Why an object is only bytes.
#[derive(Debug)]
pub(crate) enum UntypedReason {
    /// It is not an array.
    NoArray,
    /// Its element type, named here, has no name in every protocol.
    Element(String),
    /// The description does not fit the bytes.
    Corrupt,
}

impl Layout {
    /// Plain bytes.
    pub(crate) fn flat(bytes: usize) -> Self {
        // An object has less than half of the address space.
        Self { element: Element::BYTE, shape: vec![bytes as isize], strides: vec![1] }
    }

    /// The array in a buffer.
    pub(crate) fn of_array(buffer: &plasmon_client::Buffer) -> Result<Self, UntypedReason> {
        if buffer.tag() != tag::NDARRAY {
            return Err(UntypedReason::NoArray);
        }
        let (header, _) =
            ValueHeader::decode(buffer.metadata()).map_err(|_| UntypedReason::Corrupt)?;
        let element =
            element(header.text).ok_or_else(|| UntypedReason::Element(header.text.to_owned()))?;
        let bytes = header.elements().and_then(|n| n.checked_mul(element.bytes() as u64));
        if bytes != Some(buffer.data().len() as u64) {
            return Err(UntypedReason::Corrupt);
        }
        let shape: Vec<isize> = header
            .shape
            .iter()
            .map(|extent| isize::try_from(*extent).map_err(|_| UntypedReason::Corrupt))
            .collect::<Result<_, _>>()?;
        let mut strides = vec![0; shape.len()];
        let mut step: isize = 1;
        let mut place = |at: usize| {
            strides[at] = step;
            step = step.wrapping_mul(shape[at].max(1));
        };
        match header.order {
            Order::C => (0..shape.len()).rev().for_each(&mut place),
            Order::Fortran => (0..shape.len()).for_each(&mut place),
        }
        Ok(Self { element, shape, strides })
    }

    /// The array in a buffer, or its bytes.
    pub(crate) fn of(buffer: &plasmon_client::Buffer) -> Self {
        Self::of_array(buffer).unwrap_or_else(|_| Self::flat(buffer.data().len()))
    }

    /// The steps between elements in bytes.
    pub(crate) fn byte_strides(&self) -> Vec<isize> {
        let bytes = self.element.bytes() as isize;
        self.strides.iter().map(|step| step.wrapping_mul(bytes)).collect()
    }
}
