//! What happens to the pool in a round.

use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use plasmon_testkit::{Etcd, Random};
use rustix::process::Signal;

use super::history::Loss;
use super::load::{Shared, lock};
use super::machine::Machine;
use super::power::Cut;
use crate::processes::signal;

/// The longest that something is stopped, or a node is down.
const PAUSE_MS_MAX: u64 = 6_000;

/// After so long a node that is down goes out, and one more is waited for.
const OUT_MS: u64 = plasmon_cluster::leader::OUT_AFTER_MS + 4_000;

/// How often faults are drawn to find some with given words.
const DRAWS_MAX: usize = 10_000;

/// How often the power of several nodes goes at the end of a round, in percent.
const CUTS: u64 = 40;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    KillPoolDaemon(usize),
    PausePoolDaemon(usize),
    /// Its keeper starts another one.
    KillDaemon(usize),
    /// Its daemon starts another one.
    KillKeeper(usize),
    /// The whole node, which is started again with its identity, or another one in its place.
    KillNode(usize, Successor),
    PauseEtcd,
    KillEtcd,
    /// The last of a round.
    CutPower(Cut),
}

/// What comes after a node that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    Same,
    /// The same, when the pool has given it up.
    SameLater,
    /// Its log is gone with it.
    Another,
}

impl Fault {
    /// One of a pool of so many nodes.
    pub(super) fn draw(random: &mut Random, nodes: usize) -> Self {
        let node = random.size_below(nodes);
        match random.below(100) {
            0..20 => Self::KillPoolDaemon(node),
            20..40 => Self::PausePoolDaemon(node),
            40..54 => Self::KillDaemon(node),
            54..60 => Self::KillKeeper(node),
            60..72 => Self::KillNode(node, Successor::Same),
            72..76 => Self::KillNode(node, Successor::SameLater),
            76..82 => Self::KillNode(node, Successor::Another),
            82..92 => Self::PauseEtcd,
            _ => Self::KillEtcd,
        }
    }

    fn kills_a_node(self) -> bool {
        matches!(self, Self::KillNode(..))
    }

    fn node(self) -> Option<usize> {
        match self {
            Self::KillPoolDaemon(node)
            | Self::PausePoolDaemon(node)
            | Self::KillDaemon(node)
            | Self::KillKeeper(node)
            | Self::KillNode(node, _) => Some(node),
            Self::PauseEtcd | Self::KillEtcd | Self::CutPower(_) => None,
        }
    }
}

/// The faults of a round that have all of these words in their description.
pub(super) fn draw_like(random: &mut Random, nodes: usize, words: &[String]) -> Vec<Fault> {
    for _ in 0..DRAWS_MAX {
        let faults = draw(random, nodes);
        let text = describe(&faults);
        if words.iter().all(|word| text.contains(word)) {
            return faults;
        }
    }
    Vec::new()
}

/// The faults in words.
pub(super) fn describe(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The faults of a round: one, and sometimes another at the same time; or the power is cut, and
/// before that something else may happen.
fn draw(random: &mut Random, nodes: usize) -> Vec<Fault> {
    if random.percent(CUTS) {
        let first = random.percent(50).then(|| Fault::draw(random, nodes));
        // One that is replaced would be missed as long as the others have no power, and etcd ends
        // with the power.
        let is_another = |fault: &Fault| matches!(fault, Fault::KillNode(_, Successor::Another));
        let first = first.filter(|first| first.node().is_some() && !is_another(first));
        return first.into_iter().chain([Fault::CutPower(Cut::draw(random, nodes))]).collect();
    }
    let first = Fault::draw(random, nodes);
    let second = random.percent(30).then(|| Fault::draw(random, nodes));
    // A second node that dies may take the last copy along; the same place twice is one fault.
    let second = second.filter(|second| !(first.kills_a_node() && second.kills_a_node()));
    let second = second.filter(|second| second.node() != first.node());
    [first].into_iter().chain(second).collect()
}

/// Carries faults out, and ends them.
pub(super) struct Scene<'a> {
    pub(super) machines: &'a mut [Machine],
    pub(super) etcd: &'a mut Etcd,
    pub(super) random: &'a mut Random,
}

impl Scene<'_> {
    pub(super) fn play(&mut self, faults: &[Fault], shared: &Shared) -> Result<()> {
        let mut stopped = Vec::new();
        for fault in faults {
            match *fault {
                Fault::KillPoolDaemon(node) => {
                    if let Some(pid) = self.machines[node].pool_daemon() {
                        signal(pid, Signal::KILL)?;
                    }
                }
                Fault::PausePoolDaemon(node) => {
                    if let Some(pid) = self.machines[node].pool_daemon() {
                        signal(pid, Signal::STOP)?;
                        stopped.push(pid);
                    }
                }
                Fault::KillDaemon(node) => {
                    signal(self.machines[node].connect()?.status()?.pid, Signal::KILL)?;
                }
                Fault::KillKeeper(node) => self.machines[node].kill_keeper()?,
                Fault::KillNode(node, successor) => {
                    // What is put meanwhile may have had its copy there.
                    self.machines[node].kill()?;
                    shared.node_died(node);
                    let is_lost = successor == Successor::Another;
                    let loss = if is_lost { Loss::Log } else { Loss::Memory(1) };
                    lock(&shared.history).nodes_die(loss);
                    lock(&shared.homed).nodes_die(loss);
                }
                Fault::PauseEtcd => self.etcd.pause(0),
                Fault::KillEtcd => self.etcd.kill(0),
                Fault::CutPower(_) => {}
            }
        }
        let is_later = |fault: &Fault| matches!(fault, Fault::KillNode(_, Successor::SameLater));
        let least = if faults.iter().any(is_later) { OUT_MS } else { 100 };
        let longest = self.random.pick(&[200, 1_500, PAUSE_MS_MAX]);
        sleep(Duration::from_millis(least + self.random.below(longest)));
        let others_died = faults.iter().any(|fault| fault.kills_a_node());
        let cut = faults.iter().find_map(|fault| match fault {
            Fault::CutPower(cut) => Some(*cut),
            _ => None,
        });
        // One that was killed meanwhile is not there to go on.
        stopped.iter().for_each(|pid| _ = signal(*pid, Signal::CONT));
        // A node that died stays away until the power goes.
        if let Some(cut) = cut {
            let Self { machines, etcd, random } = self;
            cut.play(machines, etcd, random, (shared, others_died))?;
        }
        for fault in faults {
            match *fault {
                Fault::KillNode(node, Successor::Another) => self.machines[node].start_anew()?,
                Fault::KillNode(node, _) if !self.machines[node].is_on() => {
                    self.machines[node].start_again()?;
                }
                Fault::PauseEtcd => self.etcd.resume(0),
                Fault::KillEtcd => self.etcd.restart(0),
                _ => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillPoolDaemon(node) => write!(f, "pool daemon of node {node} killed"),
            Self::PausePoolDaemon(node) => write!(f, "pool daemon of node {node} stopped"),
            Self::KillDaemon(node) => write!(f, "daemon of node {node} killed"),
            Self::KillKeeper(node) => write!(f, "keeper of node {node} killed"),
            Self::KillNode(node, Successor::Same) => write!(f, "node {node} killed"),
            Self::KillNode(node, Successor::SameLater) => write!(f, "node {node} killed for long"),
            Self::KillNode(node, Successor::Another) => write!(f, "node {node} replaced"),
            Self::PauseEtcd => f.write_str("etcd stopped"),
            Self::KillEtcd => f.write_str("etcd killed"),
            Self::CutPower(cut) => cut.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_nodes_die_in_one_round() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            let faults = draw(&mut random, 3);
            assert!(faults.iter().filter(|fault| fault.kills_a_node()).count() <= 1);
            assert!(!faults.is_empty() && faults.len() <= 2);
        }
    }
}
