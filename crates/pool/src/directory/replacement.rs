//! Ending copies that are damaged, once another one is right (`damaged.rs`).

use std::collections::BTreeSet;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::directory::commit;
use crate::directory::led::Led;
use crate::message::Message;
use crate::record::State;
use crate::view::Context;

/// Has damaged copies ended, if another one is known to be right.
pub(super) fn advance(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let Some(damaged) = led.damaged.get(&id).cloned() else { return };
    let Some(mut record) = led.record(&id).filter(|record| record.state == State::Live).cloned()
    else {
        return;
    };
    let birth = record.birth;
    let unsurveyed: BTreeSet<Slot> = led.unsurveyed(cx).into_iter().collect();
    let sources = led.sources(cx, &id);
    let is_right = |slot: &&Slot| !unsurveyed.contains(*slot);
    let right: Vec<Slot> = sources.iter().filter(is_right).copied().collect();
    if !right.iter().any(|slot| record.holders.contains(slot)) {
        let work = led.work.entry(id).or_default();
        let next = right.into_iter().find(|slot| !work.refused.contains(slot));
        if let Some(slot) = next.filter(|_| work.missing.is_empty()) {
            work.missing.insert(slot);
            commit::ask_holders(led, cx, id);
        }
        return;
    }
    let before = record.holders.len();
    record.holders.retain(|slot| !damaged.contains(slot));
    if record.holders.len() != before {
        led.caches.entry(id).or_default().extend(damaged.iter().copied());
        led.put(cx, id, record);
    }
    for slot in damaged.into_iter().filter(|slot| cx.view.is_live(*slot)) {
        cx.send(slot, Message::Discard { id, birth });
    }
}
