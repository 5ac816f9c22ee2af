//! The power of several nodes goes at once, and comes back.
//!
//! What is in memory is gone then, and what is in the logs stays. Either no client is at work when
//! the power goes, or all are and wait until everything was looked at, or they go on as soon as
//! they can.

use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use plasmon_testkit::{Etcd, Random};

use super::history::Loss;
use super::load::{Shared, lock};
use super::machine::Machine;

/// The longest that the power is away, and that one node comes back after the other.
const AWAY_MS_MAX: u64 = 4_000;
const LATER_MS_MAX: u64 = 2_000;

/// How often the power goes again while nodes come back, in percent.
const AGAIN: u64 = 25;

/// When clients stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadEnds {
    Before,
    WithIt,
    After,
}

/// The power of these goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// A node that keeps its power.
    spared: Option<usize>,
    takes_etcd: bool,
    load_ends: LoadEnds,
}

impl Cut {
    /// One in a pool of so many nodes.
    pub(super) fn draw(random: &mut Random, nodes: usize) -> Self {
        Self {
            spared: random.percent(25).then(|| random.size_below(nodes)),
            takes_etcd: random.percent(60),
            load_ends: random.pick(&[LoadEnds::Before, LoadEnds::WithIt, LoadEnds::After]),
        }
    }

    /// Takes the power away and gives it back. `others_died`: nodes died a moment before.
    pub(super) fn play(
        self,
        machines: &mut [Machine],
        etcd: &mut Etcd,
        random: &mut Random,
        (shared, others_died): (&Shared, bool),
    ) -> Result<()> {
        if self.load_ends == LoadEnds::Before {
            let findings = shared.pause();
            lock(&shared.history).findings.extend(findings);
        }
        let cut = |(at, _): &(usize, &mut Machine)| Some(*at) != self.spared;
        let mut cut: Vec<_> = machines.iter_mut().enumerate().filter(cut).collect();
        // A put may have found fewer nodes than it wanted after others had died.
        let few = self.spared.is_some() && !others_died;
        let loss = if few { Loss::Memory(cut.len()) } else { Loss::ALL_MEMORY };
        for time in 0..2 {
            if self.takes_etcd && time == 0 {
                etcd.kill(0);
            }
            // What is lost is lost as soon as the first processes end.
            self.note(shared, loss);
            for (node, machine) in &mut cut {
                machine.kill()?;
                shared.node_died(*node);
            }
            self.note(shared, loss);
            if self.load_ends == LoadEnds::WithIt {
                shared.hold();
            }
            sleep(Duration::from_millis(random.below(AWAY_MS_MAX)));
            if self.takes_etcd && time == 0 {
                etcd.restart(0);
            }
            for last in (1..cut.len()).rev() {
                cut.swap(last, random.size_below(last + 1));
            }
            for (_, machine) in &mut cut {
                let longest = random.pick(&[1, LATER_MS_MAX]);
                sleep(Duration::from_millis(random.below(longest)));
                machine.start_again()?;
            }
            if !random.percent(AGAIN) {
                break;
            }
            sleep(Duration::from_millis(random.below(LATER_MS_MAX)));
        }
        Ok(())
    }

    fn note(self, shared: &Shared, loss: Loss) {
        lock(&shared.history).nodes_die(loss);
        lock(&shared.homed).nodes_die(loss);
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("power of ")?;
        match self.spared {
            None => f.write_str("all nodes")?,
            Some(node) => write!(f, "all nodes but {node}")?,
        }
        f.write_str(if self.takes_etcd { " and etcd cut" } else { " cut" })?;
        f.write_str(match self.load_ends {
            LoadEnds::Before => " in peace",
            LoadEnds::WithIt => " under load",
            LoadEnds::After => " amid load",
        })
    }
}
