//! What is there after a start: everything is read, and told.

use std::io;

use anyhow::Result;
use plasmon_log::{Found, Lsn, ObjectLog};

use crate::content::{bytes, number_of};
use crate::serial::Serial;

/// Lines that are said at once.
const SAID: usize = 64;

/// An object that is in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) number: u64,
    pub(crate) lsn: Lsn,
    pub(crate) bytes: u64,
}

/// Reads every object that was found and tells how it is.
pub(crate) fn run(
    log: &mut dyn ObjectLog,
    found: Vec<Found>,
    serial: &mut Serial,
) -> Result<Vec<Known>> {
    let mut objects = Vec::new();
    let mut lines = Vec::new();
    for Found { object, lsn } in found {
        let size = object.sizes.data;
        let Some(number) = number_of(&object.id) else {
            lines.push(format!("broken {} an id of no object", u64::MAX));
            continue;
        };
        let footprint = object.sizes.footprint().unwrap_or_default();
        lines.push(match check(log, (number, size), lsn, footprint) {
            Ok(()) => format!("have {number} {size}"),
            Err(reason) => format!("broken {number} {}", reason.replace('\n', " ")),
        });
        objects.push(Known { number, lsn, bytes: size });
        if lines.len() >= SAID {
            serial.say(&std::mem::take(&mut lines))?;
        }
    }
    lines.push("audited".into());
    serial.say(&lines)?;
    Ok(objects)
}

/// Whether every byte is the one that was put.
fn check(
    log: &mut dyn ObjectLog,
    (number, size): (u64, u64),
    lsn: Lsn,
    footprint: u64,
) -> Result<(), String> {
    let mut seen = 0;
    let outcome = log.read(lsn, footprint, &mut |offset, piece: &[u8]| {
        let end = offset + piece.len() as u64;
        if end > size || !bytes(number, offset, end).eq(piece.iter().copied()) {
            return Err(io::Error::other(format!("wrong bytes from {offset} to {end}")));
        }
        seen += piece.len() as u64;
        Ok(())
    });
    outcome.map_err(|error| error.to_string())?;
    if seen == size { Ok(()) } else { Err(format!("{seen} bytes of {size} were read")) }
}
