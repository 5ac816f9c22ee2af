//! Files that are compressed as a whole.

use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

/// How the bytes of a file are compressed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// As gzip does.
    Gzip,
    /// As zstd does.
    Zstd,
}

/// Bytes that are read from a file at once.
const READ_BYTES: usize = 1 << 20;

/// The default level of zstd itself.
const ZSTD_LEVEL: i32 = 0;

/// The byte order mark that Excel and other programs put before the text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The text of a file, uncompressed and without a byte order mark.
pub(crate) fn text(
    file: impl Read + Send + 'static,
    compression: Compression,
) -> io::Result<Box<dyn BufRead + Send>> {
    let file = BufReader::with_capacity(READ_BYTES, file);
    let mut text: Box<dyn BufRead + Send> = match compression {
        Compression::Plain => Box::new(file),
        Compression::Gzip => {
            Box::new(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(file)))
        }
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(file)?;
            Box::new(BufReader::with_capacity(READ_BYTES, decoder))
        }
    };
    if text.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        text.read_exact(&mut [0; 3])?;
    }
    Ok(text)
}

/// Where the bytes of a compressed file are written.
pub enum CompressingWriter<W: Write> {
    /// As they are.
    Plain(W),
    /// Through gzip.
    Gzip(GzEncoder<W>),
    /// Through zstd.
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> std::fmt::Debug for CompressingWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompressingWriter").finish_non_exhaustive()
    }
}

impl<W: Write> CompressingWriter<W> {
    /// Begins a file.
    pub fn new(compression: Compression, out: W) -> io::Result<Self> {
        Ok(match compression {
            Compression::Plain => Self::Plain(out),
            Compression::Gzip => Self::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => Self::Zstd(zstd::Encoder::new(out, ZSTD_LEVEL)?),
        })
    }

    /// Ends it.
    pub fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        out.flush()
    }
}

impl<W: Write> Write for CompressingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zstd(out) => out.flush(),
        }
    }
}
