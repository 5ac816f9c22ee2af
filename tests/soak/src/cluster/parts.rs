//! Parts of many objects in one call, and regions: written in pieces, sealed, or left.

use std::time::{Duration, Instant};

use plasmon_client::{Client, Code, Error, PartsOf, RegionOptions};
use plasmon_testkit::{Random, pattern};

use super::homed::Content;
use super::load::{Shared, lock};

/// How long parts are waited for.
const WITHIN: Duration = Duration::from_millis(500);

/// Bytes of the largest region, and of the largest piece of it.
const REGION_BYTES_MAX: usize = 200_000;
const PIECE_BYTES_MAX: usize = 90_000;

/// Gathers parts of objects without names, and finds them wrong if they are not as they were put.
pub(super) fn gather(shared: &Shared, client: &Client, random: &mut Random) -> Result<(), Error> {
    let begin = Instant::now();
    let objects = lock(&shared.homed).pick_some(random);
    let mut wanted = Vec::new();
    for (id, _, bytes) in &objects {
        let (mut ranges, mut at) = (Vec::new(), 0);
        for _ in 0..random.size_below(4) {
            let from = at + random.size_below(bytes - at + 1);
            at = from + random.size_below(bytes - from + 1);
            ranges.push(from as u64..at as u64);
        }
        wanted.push(PartsOf { id: *id, ranges });
    }
    let timeout = random.percent(30).then_some(WITHIN);
    let mut findings = Vec::new();
    let mut outcome = Ok(());
    let found = client.pool_gather(wanted.clone(), timeout.or(Some(Duration::ZERO)));
    for ((found, wanted), (id, seed, bytes)) in found.zip(&wanted).zip(&objects) {
        match found {
            Ok(pieces) => {
                let data = pattern(*seed, *bytes);
                let is_right = pieces.len() == wanted.ranges.len()
                    && pieces.iter().zip(&wanted.ranges).all(|(piece, range)| {
                        piece[..] == data[range.start as usize..range.end as usize]
                    });
                if !is_right {
                    findings.push(format!("torn: {id} has wrong bytes in {:?}", wanted.ranges));
                }
            }
            Err(error) if matches!(error.code(), Code::Absent | Code::Deleted) => {
                if lock(&shared.homed).is_certain(id, begin) {
                    findings.push(format!("lost: {id} is {error} in a gather, and was settled"));
                }
            }
            Err(error) => outcome = Err(error),
        }
    }
    lock(&shared.history).findings.extend(findings);
    outcome
}

/// Writes a region in pieces, in any order, and has it sealed through another node. What is not
/// sealed ends with the client that allocated it, which is one of its own.
pub(super) fn region(shared: &Shared, client: &Client, random: &mut Random) -> Result<(), Error> {
    let (seed, bytes) = (random.word(), random.size_below(REGION_BYTES_MAX));
    let copies = random.pick(&[1, 1, 2]);
    let nodes = client.pool_nodes()?;
    let node = random.index(nodes.len()).map(|at| nodes[at].name.clone());
    let options = RegionOptions { copies, copies_min: copies, node };
    let machines = lock(&shared.nodes).clone();
    let Some(machine) = random.index(machines.len()).map(|at| &machines[at]) else {
        return Ok(());
    };
    let allocator = Client::connect(machine)?;
    let at = allocator.pool_allocate(bytes as u64, &options)?;
    let data = pattern(seed, bytes);
    let mut pieces: Vec<_> = data.chunks(1 + random.size_below(PIECE_BYTES_MAX)).collect();
    let step = pieces.first().map_or(0, |piece| piece.len());
    let mut places: Vec<usize> = (0..pieces.len()).collect();
    for last in (1..pieces.len()).rev() {
        let other = random.size_below(last + 1);
        pieces.swap(last, other);
        places.swap(last, other);
    }
    for (piece, place) in pieces.iter().zip(places) {
        if let Some(to) = at.plus((place * step) as u64) {
            allocator.pool_write(to, piece)?;
        }
    }
    match random.below(10) {
        0 => return client.pool_free(&at.id),
        1 => return Ok(()),
        _ => {}
    }
    // What comes of a seal without an answer is not known.
    let content = Content { seed, bytes, copies: copies.into(), is_durable: false };
    lock(&shared.homed).add(at.id, content, false);
    client.pool_seal(&at.id)?;
    lock(&shared.homed).is_accepted(&at.id);
    Ok(())
}
