//! What goes wrong, and how it ends.

use super::network::Way;
use super::stores::Message;
use super::world::{Act, What, World};

impl World {
    /// Starts all machines.
    pub(crate) fn start_all(&mut self) -> Result<(), String> {
        for at in 0..self.machines.len() {
            self.start_store(at)?;
            // The slots of a pool are given in the order of the nodes.
            self.start_agent(at);
            self.after_ms(50, What::Act(Act::Client(at)));
        }
        self.after_ms(1, What::Etcd);
        Ok(())
    }

    pub(crate) fn fault(&mut self) -> Result<(), String> {
        if self.has_logs() && self.dice.percent(10) {
            self.lose_power();
            return Ok(());
        }
        let at = self.dice.size_below(self.machines.len());
        let other = self.dice.size_below(self.machines.len());
        let way = Way { from: at, to: other };
        let ms = 50 + self.dice.below(4_000);
        let kind = self.dice.below(14);
        let runs = self.machines[at].store.is_some();
        self.note(|| format!("fault {kind} at {at}, {other}, for {ms} ms"));
        match kind {
            0 if runs => self.crash_machine(at, ms),
            1 if runs => self.crash_store(at, 10 + ms / 10),
            2 | 3 if self.machines[at].agent.is_some() => self.end_agent(at, ms),
            4 if self.machines.iter().all(|m| m.agent.is_some()) && self.dice.percent(30) => {
                // All pool daemons at once: every group loses its records.
                (0..self.machines.len()).for_each(|at| self.end_agent(at, ms / 4));
            }
            5 | 6 if at != other && self.network.link(way).up => {
                self.disconnect(way);
                self.after_ms(ms / 4, What::Act(Act::Connect(way)));
            }
            7 if at != other => {
                self.network.cut(way);
                self.after_ms(ms, What::Act(Act::Heal(way)));
            }
            8 | 9 => {
                self.machines[at].reaches_etcd = false;
                self.after_ms(ms * 2, What::Act(Act::Etcd(at)));
            }
            10 => self.pause_agent(at, ms),
            11 if runs => self.pause_store(at, ms / 2),
            // The whole machine stands still.
            12 if runs => {
                self.pause_agent(at, ms);
                self.pause_store(at, ms);
            }
            13 if runs => return self.kill_client(at),
            _ => {}
        }
        Ok(())
    }

    fn pause_agent(&mut self, at: usize, ms: u64) {
        if let Some(agent) = &mut self.machines[at].agent
            && !agent.paused
        {
            agent.paused = true;
            self.after_ms(ms, What::Act(Act::ResumeAgent(at)));
        }
    }

    fn pause_store(&mut self, at: usize, ms: u64) {
        if !self.machines[at].store_paused {
            self.machines[at].store_paused = true;
            self.after_ms(ms, What::Act(Act::ResumeStore(at)));
        }
    }

    /// The operations of a store that is gone have no end.
    fn leave_tasks(&mut self, at: usize) {
        for no in self.machines[at].tasks.keys() {
            if let Some(record) = self.history.records.get_mut(no) {
                record.left = true;
            }
        }
    }

    /// The store's daemon dies, and the keeper starts another. The pool daemon notices later, and
    /// takes part again once there is a store.
    pub(crate) fn crash_store(&mut self, at: usize, ms: u64) {
        self.leave_tasks(at);
        let hidden = self.machines[at].hidden();
        self.forgotten.extend(hidden.into_iter().map(|(id, birth)| (at, id, birth)));
        self.machines[at].end_store();
        self.end_some_sessions(at);
        let incarnation = self.machines[at].incarnation;
        let notices_ms = self.dice.below(50);
        self.after_ms(notices_ms, What::Act(Act::EndAgent(at, incarnation)));
        self.after_ms(ms, What::Act(Act::StartStore(at)));
    }

    pub(crate) fn crash_machine(&mut self, at: usize, ms: u64) {
        self.end_agent(at, ms);
        self.leave_tasks(at);
        self.machines[at].end_store();
        self.machines[at].lose_memory();
        self.end_all_sessions(at);
        self.after_ms(ms, What::Act(Act::StartMachine(at)));
    }

    /// A pool daemon ends, and is started again after so long.
    pub(crate) fn end_agent(&mut self, at: usize, ms: u64) {
        let Some(client) = self.machines[at].agent.as_ref().map(|agent| agent.client) else {
            return;
        };
        self.note(|| format!("pool daemon {at} ends"));
        self.leave_reads(at);
        self.leave_regions(at);
        self.tell_store(at, Message::Closed(client));
        self.machines[at].agent = None;
        for other in (0..self.machines.len()).filter(|other| *other != at) {
            self.disconnect(Way { from: at, to: other });
        }
        self.after_ms(ms, What::Act(Act::StartAgent(at)));
    }

    fn disconnect(&mut self, way: Way) {
        if self.network.link(way).up {
            self.network.reset(way);
            self.tell_link(way, false);
        }
    }

    pub(crate) fn connect(&mut self, way: Way) {
        let begun = |at: usize| {
            let agent = self.machines[at].agent.as_ref();
            agent.is_some_and(|agent| agent.node.is_some())
        };
        if begun(way.from) && begun(way.to) && !self.network.link(way).up {
            self.network.link(way).up = true;
            self.tell_link(way, true);
        }
    }

    fn tell_link(&mut self, way: Way, up: bool) {
        let generation = self.network.link(way).generation;
        let Way { from, to } = way;
        self.at(self.now, What::Link { at: from, peer: to, up, generation });
        self.at(self.now, What::Link { at: to, peer: from, up, generation });
    }

    /// Ends a cut; what it held back arrives before what is still under way.
    pub(crate) fn heal(&mut self, way: Way) -> Result<(), String> {
        let generation = self.network.link(way).generation;
        let held = self.network.heal(way);
        held.into_iter().try_for_each(|bytes| self.happen(What::Deliver { way, generation, bytes }))
    }

    pub(crate) fn stop_faults(&mut self) -> Result<(), String> {
        self.note(|| "faults stop".into());
        self.bulk_loss = 0;
        self.has_faults = false;
        self.quiet_at = self.now;
        for at in 0..self.machines.len() {
            self.machines[at].reaches_etcd = true;
            self.resume_store(at)?;
            self.resume_agent(at)?;
            self.start_store(at)?;
            self.start_agent(at);
        }
        for a in 0..self.machines.len() {
            for b in 0..self.machines.len() {
                let way = Way { from: a, to: b };
                if a != b {
                    self.heal(way)?;
                    self.connect(way);
                }
            }
        }
        Ok(())
    }
}
