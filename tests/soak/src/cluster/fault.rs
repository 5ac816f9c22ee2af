//! What happens to the pool in a round.

use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use plasmon_testkit::{Etcd, Random};
use rustix::process::Signal;

use super::load::{Shared, lock};
use super::machine::Machine;
use crate::node::signal;

/// The longest that something is stopped, or a node is down.
const PAUSE_MS_MAX: u64 = 6_000;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    KillPoolDaemon(usize),
    PausePoolDaemon(usize),
    /// Its keeper starts another one.
    KillDaemon(usize),
    /// The whole node, which is started again with its identity, or another one in its place.
    KillNode(usize, Successor),
    PauseEtcd,
    KillEtcd,
}

/// What comes after a node that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    Same,
    Another,
}

impl Fault {
    /// One of a pool of so many nodes.
    pub(super) fn draw(random: &mut Random, nodes: usize) -> Self {
        let node = random.size_below(nodes);
        match random.below(100) {
            0..20 => Self::KillPoolDaemon(node),
            20..40 => Self::PausePoolDaemon(node),
            40..60 => Self::KillDaemon(node),
            60..76 => Self::KillNode(node, Successor::Same),
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
            | Self::KillNode(node, _) => Some(node),
            Self::PauseEtcd | Self::KillEtcd => None,
        }
    }
}

/// The faults of a round: one, and sometimes another at the same time.
pub(super) fn draw(random: &mut Random, nodes: usize) -> Vec<Fault> {
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
                Fault::KillNode(node, _) => {
                    // What is put meanwhile may have had its copy there.
                    self.machines[node].kill()?;
                    lock(&shared.history).node_dies();
                    lock(&shared.homed).node_dies();
                }
                Fault::PauseEtcd => self.etcd.pause(0),
                Fault::KillEtcd => self.etcd.kill(0),
            }
        }
        let longest = self.random.pick(&[200, 1_500, PAUSE_MS_MAX]);
        sleep(Duration::from_millis(100 + self.random.below(longest)));
        // One that was killed meanwhile is not there to go on.
        stopped.iter().for_each(|pid| _ = signal(*pid, Signal::CONT));
        for fault in faults {
            match *fault {
                Fault::KillNode(node, Successor::Same) => self.machines[node].start_again()?,
                Fault::KillNode(node, Successor::Another) => self.machines[node].start_anew()?,
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
            Self::KillNode(node, Successor::Same) => write!(f, "node {node} killed"),
            Self::KillNode(node, Successor::Another) => write!(f, "node {node} replaced"),
            Self::PauseEtcd => f.write_str("etcd stopped"),
            Self::KillEtcd => f.write_str("etcd killed"),
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
