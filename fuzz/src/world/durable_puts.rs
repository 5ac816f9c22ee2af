//! Puts of durable objects by one request, from memory of the client's own and sometimes beside it.

use plasmon_proto::Code;
use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::limits::OBJECT_ALIGN;
use plasmon_proto::message::Failure;
use plasmon_proto::ring::Put;
use plasmon_store::{ClientNo, Event};

use super::World;
use crate::Input;
use crate::requests::{IDS, id, parts, traits};

impl World {
    pub(super) fn put_durable(&mut self, client: u32, input: &mut Input<'_>) {
        let Some(from) = self.clients.get(&client) else { return };
        let mut own: Vec<Range> =
            from.leases.iter().chain(from.creations.values()).copied().collect();
        own.truncate(256);
        let own = match own.len() {
            0 => Range { extent: ExtentId(input.byte().into()), offset: input.word(), bytes: 0 },
            count => own[input.below(count)],
        };
        let shift = [0, 0, 0, OBJECT_ALIGN, 1 << 20][input.below(5)];
        let (sizes, attributes) = parts(input, own.bytes);
        let offset = own.offset.wrapping_add(shift) / OBJECT_ALIGN * OBJECT_ALIGN;
        let placement = Placement { extent: own.extent, offset };
        let id = id(input.below(IDS));
        let target = if input.below(4) == 0 { crate::requests::id(input.below(IDS)) } else { id };
        let put = Put { id, placement, sizes, traits: traits(input) };
        let mut attributes = attributes.ok_or_else(|| Failure::of(Code::BadRequest));
        if let Ok(attributes) = &mut attributes {
            attributes.durable |= input.below(4) != 0;
        }
        let range = put.range().filter(|range| range.offset.checked_add(range.bytes).is_some());
        let Some(range) = range else {
            // The daemon ends such a client.
            return;
        };
        self.number += 1;
        let number = self.number;
        self.outstanding(client, number, None);
        // Refused or not, the client gives this memory away with its request. What is freed by the
        // request may be given out again by the same step.
        self.carve(client, &range);
        let created = self.clients.get(&client).and_then(|it| it.creations.get(&id).copied());
        if created == Some(range) {
            self.end_creation(client, &id);
        }
        self.apply(Event::PutDurable(ClientNo(client), number, put, target, attributes));
    }
}
