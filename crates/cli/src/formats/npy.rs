//! NumPy's `.npy` files (format versions 1 to 3) and the array objects that they become.

use std::fs::File;
use std::io::{Read, Seek, Write};

use anyhow::{Context, Result, bail};
use plasmon_proto::value::{Order, ValueHeader, array_kind};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// A header longer than this is not that of an array of numbers.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// The header of a file.
#[derive(Debug)]
pub(super) struct Header {
    descr: String,
    shape: Vec<u64>,
    order: Order,
    /// Bytes of the array's data, which follow the header.
    pub(super) data_bytes: u64,
}

impl Header {
    /// The metadata of the object.
    pub(super) fn metadata(&self) -> Result<Vec<u8>> {
        let Self { descr, shape, order, .. } = self;
        let header = ValueHeader {
            kind: array_kind::NUMPY,
            order: *order,
            shape: shape.clone(),
            text: descr,
        };
        header.encode(&[]).context("it has too many dimensions")
    }
}

/// Reads the header; the file is left at the first byte of the data.
pub(super) fn read_header(mut file: File) -> Result<(Header, File)> {
    let mut start = [0; 8];
    file.read_exact(&mut start)?;
    if &start[..6] != MAGIC {
        bail!("it does not start with the magic bytes of an npy file");
    }
    let length = match start[6] {
        1 => {
            let mut bytes = [0; 2];
            file.read_exact(&mut bytes)?;
            usize::from(u16::from_le_bytes(bytes))
        }
        2 | 3 => {
            let mut bytes = [0; 4];
            file.read_exact(&mut bytes)?;
            u32::from_le_bytes(bytes) as usize
        }
        version => bail!("version {version} of the npy format is unknown"),
    };
    if length > HEADER_BYTES_MAX {
        bail!("its header claims {length} bytes");
    }
    let mut text = vec![0; length];
    file.read_exact(&mut text)?;
    let text = String::from_utf8(text).context("its header is not UTF-8")?;
    let header = parse(&text).with_context(|| format!("its header is {:?}", text.trim()))?;
    let rest = file.metadata()?.len().saturating_sub(file.stream_position()?);
    if rest < header.data_bytes {
        bail!("its header promises {} bytes of data, found {rest}", header.data_bytes);
    }
    Ok((header, file))
}

/// Parses the Python dictionary of a header: `{'descr': '<f8', 'fortran_order': False, 'shape':
/// (3,), }`.
fn parse(text: &str) -> Result<Header> {
    let json = text
        .trim()
        .replace('\'', "\"")
        .replace("False", "false")
        .replace("True", "true")
        .replace('(', "[")
        .replace(')', "]");
    let json = without_trailing_commas(&json);
    let value: serde_json::Value = serde_json::from_str(&json).context("it cannot be read")?;
    let fortran = value["fortran_order"].as_bool().context("fortran_order is missing")?;
    let shape: Vec<u64> =
        serde_json::from_value(value["shape"].clone()).context("shape is not a list of sizes")?;
    let Some(descr) = value["descr"].as_str() else {
        bail!(
            "structured types are read by Python only: use plasmon.connect().put(numpy.load(..))"
        );
    };
    let item_bytes = item_bytes(descr)?;
    let items = shape.iter().try_fold(1_u64, |product, &size| product.checked_mul(size));
    let data_bytes = items.and_then(|items| items.checked_mul(item_bytes));
    let data_bytes = data_bytes.context("its shape is too large")?;
    let order = if fortran { Order::Fortran } else { Order::C };
    Ok(Header { descr: descr.to_owned(), shape, order, data_bytes })
}

fn without_trailing_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '}' | ']') {
            let kept = out.trim_end().trim_end_matches(',').len();
            out.truncate(kept);
        }
        out.push(c);
    }
    out
}

/// Bytes of one item of a simple type such as `<f8`, `|b1` or `<U10`.
fn item_bytes(descr: &str) -> Result<u64> {
    let mut letters = descr.chars();
    let order = letters.next().context("descr is empty")?;
    let kind = letters.next().context("descr is too short")?;
    if !"<>|=".contains(order) || !"?biufcmMSUV".contains(kind) {
        bail!("arrays of type {descr} cannot be stored");
    }
    let digits: String = letters.take_while(char::is_ascii_digit).collect();
    let count: u64 = digits.parse().with_context(|| format!("the type {descr} has no size"))?;
    let each = if kind == 'U' { 4 } else { 1 };
    count.checked_mul(each).context("its items are too large")
}

/// Writes an array object as an npy file of version 1.
pub(super) fn write(data: &[u8], metadata: &[u8], out: &mut (dyn Write + Send)) -> Result<()> {
    let (value, _) =
        ValueHeader::decode(metadata).context("the object's description cannot be read")?;
    let descr = value.text;
    if item_bytes(descr).is_err() {
        bail!("arrays of type {descr} are written by Python only: numpy.save(.., store.get(..))");
    }
    let shape: Vec<String> = value.shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let fortran = if value.order == Order::Fortran { "True" } else { "False" };
    let mut header = format!(
        "{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({}{comma}), }}",
        shape.join(", ")
    );
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let length = u16::try_from(header.len()).context("the array has too many dimensions")?;
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    out.write_all(data)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let header =
            parse("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }     \n").unwrap();
        assert_eq!(header.data_bytes, 96);
        assert_eq!(header.shape, [3, 4]);
        let scalar = parse("{'descr': '|b1', 'fortran_order': True, 'shape': (), }").unwrap();
        assert_eq!((scalar.data_bytes, scalar.order), (1, Order::Fortran));
        assert_eq!(
            parse("{'descr': '<U5', 'fortran_order': False, 'shape': (2,)}").unwrap().data_bytes,
            40
        );
    }

    #[test]
    fn an_invalid_header_is_refused() {
        for text in [
            "",
            "{}",
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 8)}",
            "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
