//! A node ends or stops while its objects are wanted.

use std::time::Instant;

use anyhow::{Result, ensure};
use plasmon_client::Name;
use plasmon_proto::ObjectId;
use rustix::process::Signal;
use serde::Deserialize;

use super::nodes::{NODES, Nodes, PATIENCE, is_passing, named, until};
use crate::protocol::Samples;
use crate::source::Payload;
use crate::timing::nanoseconds;

/// The node that ends.
const VICTIM: usize = 0;
/// Names that are tried until one lies as it should.
const NAMES_MAX: usize = 1000;

/// What is wanted of the pool without the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    /// An object whose records another node leads, and a copy of which another node has.
    Read,
    /// The same where the node led the records as well.
    ReadLed,
    /// A new object under a name whose records the node led.
    Commit,
}

/// What happens to all processes of the node at once.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    /// They are killed, and their connections end.
    Kill,
    /// They stop, and nothing is answered any more.
    Stop,
    /// They go on, and the network carries nothing of what they send or are sent.
    Cut,
}

/// One death, of a pool that is of no use after it.
#[derive(Debug, Deserialize)]
pub(crate) struct Failover {
    wanted: Wanted,
    fault: Fault,
    object_bytes: usize,
}

impl Failover {
    /// How long it takes from the fault to the answer.
    pub(super) fn run(&self, nodes: &mut Nodes) -> Result<Samples> {
        let payload = Payload::new(self.object_bytes, None)?;
        let (name, asker) = self.prepare(nodes, payload.as_slice())?;
        let begin = Instant::now();
        let _cut = match self.fault {
            Fault::Kill => nodes.signal(VICTIM, Signal::KILL).map(|()| None),
            Fault::Stop => nodes.signal(VICTIM, Signal::STOP).map(|()| None),
            Fault::Cut => nodes.cut(VICTIM).map(Some),
        }?;
        let client = nodes.client(asker);
        until("the pool goes on", || {
            let answer = match self.wanted {
                Wanted::Read | Wanted::ReadLed => client.get(&name.id(), Some(PATIENCE)).map(drop),
                Wanted::Commit => client.put(payload.as_slice(), &named(&name, 1)).map(drop),
            };
            match answer {
                Ok(()) => Ok(Some(())),
                Err(error) if is_passing(error.code()) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })?;
        Ok(Samples { samples: vec![nanoseconds(begin.elapsed()) / 1e6], batch: 1 })
    }

    /// A name that lies as it should, and the node that asks for it.
    fn prepare(&self, nodes: &Nodes, data: &[u8]) -> Result<(Name, usize)> {
        for number in 0..NAMES_MAX {
            let name = Name::new("", format!("@failover:{number}"))?;
            let leader = nodes.primary_of(&name.id())?;
            match self.wanted {
                Wanted::Commit if leader == VICTIM => return Ok((name, 1)),
                Wanted::Read if leader != VICTIM => {}
                Wanted::ReadLed if leader == VICTIM => {}
                _ => continue,
            }
            nodes.client(VICTIM).put(data, &named(&name, 2))?;
            return Ok((name.clone(), without_copy(nodes, &name.id())?));
        }
        Err(anyhow::anyhow!("of {NAMES_MAX} names none lies as it should"))
    }
}

/// The node beside the victim that has no copy.
fn without_copy(nodes: &Nodes, id: &ObjectId) -> Result<usize> {
    let has = |at: usize| nodes.client(at).get_now(id).is_some();
    ensure!(has(VICTIM), "the node that puts an object has a copy");
    // The other copy is shown a moment after the put was acknowledged.
    until("another node shows its copy", || {
        let without: Vec<usize> = (0..NODES).filter(|at| *at != VICTIM && !has(*at)).collect();
        Ok(if let [asker] = without[..] { Some(asker) } else { None })
    })
}
