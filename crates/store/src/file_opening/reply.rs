//! Opening a spill file for a client, and answering it.

use plasmon_proto::limits::OPENINGS_PER_CLIENT_MAX;
use plasmon_proto::message::{Failure, Reply, SpillFile};
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::FileOpening;
use crate::effect::Effect;
use crate::event::{ClientNo, OpenedFile, Ticket};
use crate::ports::Directory;
use crate::spill::{Backing, SpilledObject};
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Has the file of a spilled object opened. For what is not spilled the answer is its state.
    pub(crate) fn open_spilled(&mut self, client: ClientNo, request: u64, id: ObjectId) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        // What is in the log has no file of its own: the client is told to have it brought back.
        let has_file = |it: &&SpilledObject| !it.corrupt && it.backing == Backing::File;
        let Some(spilled) = self.objects.tier.get(&id).filter(has_file) else {
            return self.reply(client, request, Reply::States(vec![self.state_of(&id)]));
        };
        let (serial, sizes, traits) = (spilled.serial, spilled.meta.sizes, spilled.meta.traits);
        let file = SpillFile { serial, offset: 0, sizes, traits };
        let Some(found) = self.sessions.clients.get_mut(client) else { return };
        if found.openings >= OPENINGS_PER_CLIENT_MAX {
            let failure = Failure::of(Code::LimitReached)
                .with_id(id)
                .with_amounts(found.openings as u64 + 1, OPENINGS_PER_CLIENT_MAX as u64)
                .with_detail("this client is opening too many spill files at once");
            return self.fail(client, request, failure);
        }
        found.openings += 1;
        let ticket = self.ticket();
        self.sessions.openings.insert(ticket, FileOpening { asker, request, id, file });
        self.out.push(Effect::Open(ticket, id, serial));
    }

    /// The file is open, or is not.
    pub(crate) fn opened(&mut self, ticket: Ticket, outcome: OpenedFile) {
        let Some(opening) = self.sessions.openings.remove(&ticket) else { return };
        let FileOpening { asker, request, id, file } = opening;
        if let Some((_, found)) = self.sessions.clients.of_session_mut(asker.session) {
            found.openings = found.openings.saturating_sub(1);
        }
        if outcome == OpenedFile::Corrupt {
            self.found_corrupt(&id, file.serial);
        }
        if !self.sessions.clients.is_asking(asker) {
            return;
        }
        match outcome {
            OpenedFile::At(offset) => {
                let file = SpillFile { offset, ..file };
                self.out.push(Effect::Opened(asker.client, request, ticket, file));
            }
            OpenedFile::Corrupt => {
                self.reply(asker.client, request, Reply::States(vec![self.state_of(&id)]));
            }
            OpenedFile::Failed => {
                let failure = Failure::of(Code::Io).with_id(id).with_detail(
                    "the object's spill file cannot be opened now; the object is not lost: try \
                     again",
                );
                self.fail(asker.client, request, failure);
            }
        }
    }

    /// The file of a spilled object is certainly not what was written.
    fn found_corrupt(&mut self, id: &ObjectId, serial: u64) {
        // One that is being read back is judged by that.
        let found = self.objects.tier.get(id).filter(|it| it.serial == serial && !it.restoring);
        if found.is_some() {
            self.objects.tier.mark_corrupt(id);
            self.notify_waiters(id, ObjectState::Corrupt);
            self.call_damaged(id);
        }
    }
}
