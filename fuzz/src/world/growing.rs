//! Objects that grow: what clients ask for, and what the machine does.

use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::Request;
use plasmon_store::ClientNo;

use super::{CAPACITY_BYTES, World};
use crate::Input;
use crate::requests::{self, IDS, traits};

impl World {
    /// Begins an object that grows, lets one grow or seals it.
    pub(super) fn grow(&mut self, client: u32, input: &mut Input<'_>) {
        let own: Vec<ObjectId> = match self.clients.get(&client) {
            Some(from) => from.creations.keys().copied().collect(),
            None => return,
        };
        let id = match own.len() {
            0 => requests::id(input.below(IDS)),
            count => own[input.below(count.min(256))],
        };
        let bytes = input.word() % (2 * CAPACITY_BYTES);
        let request = match input.below(4) {
            0 => Request::CreateGrowing {
                id: requests::id(input.below(IDS)),
                traits: traits(input),
                bytes,
                open_ended: input.byte() % 2 == 0,
            },
            1 | 2 => Request::Grow { id, bytes },
            _ => Request::SealGrown { id, data: bytes },
        };
        self.request(client, request);
    }

    /// Memory was allocated at the end of an extent; whether it could be.
    pub(super) fn extended(&mut self, range: &Range, new_extent: bool) -> bool {
        let end = range.offset + range.bytes;
        if new_extent {
            assert_eq!(range.offset, 0, "an extent begins at its beginning");
            let before = self.extents.insert(range.extent, end);
            assert_eq!(before, None, "a new extent has a new number");
            return true;
        }
        let Some(present) = self.extents.get_mut(&range.extent) else { return false };
        // One that was cut to its size is longer no more; the kernel refuses.
        let grows = *present == range.offset;
        if grows {
            *present = end;
        }
        grows
    }

    /// An extent was cut to its size; whether it could be. One that was dropped in the meantime
    /// cannot.
    pub(super) fn settled(&mut self, extent: ExtentId, bytes: u64) -> bool {
        let Some(end) = self.extents.get_mut(&extent) else { return false };
        assert!(bytes <= *end, "an extent is only cut short");
        *end = bytes;
        true
    }

    /// How much the request asked for, if it was one for more memory.
    pub(super) fn growth(&mut self, client: ClientNo, request: u64) -> Option<u64> {
        self.clients.get_mut(&client.0)?.growths.remove(&request)
    }

    /// A request for more memory was answered with it.
    pub(super) fn has_grown(&mut self, client: ClientNo, id: &ObjectId, sizes: (Option<u64>, u64)) {
        let (wanted, bytes) = sizes;
        assert!(wanted.is_some_and(|wanted| bytes >= wanted), "{bytes} bytes are no {wanted:?}");
        let client = self.clients.get_mut(&client.0).expect("only who is there is answered");
        if let Some(range) = client.creations.get_mut(id) {
            range.bytes = range.bytes.max(bytes);
            let end = self.extents.get(&range.extent).expect("memory lies in an extent");
            assert!(range.bytes <= *end, "what is granted is there");
        }
    }

    /// After a seal that failed there may be nothing left of what was created.
    pub(super) fn forget_failed(&mut self, client: ClientNo, id: &ObjectId) {
        if self.store.creating(client, id).is_none() {
            self.end_creation(client.0, id);
        }
    }
}
