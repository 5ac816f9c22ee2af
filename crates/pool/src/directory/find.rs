//! Questions: what the primary answers about an id.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::pool_admin::Standing;

use crate::config::Mutation;
use crate::directory::counted;
use crate::directory::led::Led;
use crate::limits::SOURCES_MAX;
use crate::message::{Answer, Message, QuestionNo};
use crate::record::{Content, Found, Place, Record, State};
use crate::view::Context;

/// A node asks about an id. What cannot be said for certain is not answered; the node asks again.
pub(super) fn received(
    led: &mut Led,
    cx: &mut Context<'_>,
    from: Slot,
    id: ObjectId,
    question: QuestionNo,
    watch: bool,
) {
    let damaged = || match watch {
        true => all_damaged(led, cx, &id),
        false => damaged(led, cx, &id),
    };
    let Some(answer) = answer(led, cx, from, &id).or_else(damaged) else { return };
    match &answer {
        Answer::Absent if watch => {
            led.watchers.entry(id).or_default().insert(from, question);
        }
        // Before it can have a copy: a delete has to reach every node that may have one. Without a
        // source it gets none.
        Answer::Found { keeps: false, sources, .. } if !sources.is_empty() => {
            led.caches.entry(id).or_default().insert(from);
        }
        Answer::Found { .. } | Answer::Absent | Answer::Deleted => {}
        Answer::Lost(_) | Answer::Damaged(_) => {}
    }
    cx.send(from, Message::Answered { id, question, answer });
}

/// A node asks where an object is, of which it will have no copy.
pub(super) fn located(
    led: &Led,
    cx: &mut Context<'_>,
    from: Slot,
    id: ObjectId,
    question: QuestionNo,
) {
    if let Some(answer) = answer(led, cx, from, &id).or_else(|| all_damaged(led, cx, &id)) {
        cx.send(from, Message::Answered { id, question, answer });
    }
}

/// An operator asks where an object is.
pub(super) fn told(
    led: &Led,
    cx: &mut Context<'_>,
    from: Slot,
    id: ObjectId,
    question: QuestionNo,
) {
    if let Some(place) = place(led, cx, &id) {
        cx.send(from, Message::Place { id, question, place });
    }
}

/// What the record says of an id. `None`: that is not known for certain.
fn place(led: &Led, cx: &Context<'_>, id: &ObjectId) -> Option<Place> {
    let primary = Some(cx.view.me());
    let Some(record) = led.record(id) else {
        let standing = Standing::Absent;
        return led.knows_all(cx).then_some(Place { standing, found: None, primary });
    };
    let is_reached = !led.sources(cx, id).is_empty();
    let standing = match record.state {
        State::Pending => Standing::Pending,
        State::Live if is_reached => Standing::Live,
        State::Live => Standing::Unreachable,
        State::Dead => Standing::Dead,
        // Its put was refused; copies of it may be left.
        State::Withdrawn => Standing::Absent,
        State::Lost => Standing::Lost,
    };
    // Of one that has ended, nodes that have not confirmed that they have no copy.
    let unconfirmed = led.work.get(id).filter(|work| work.ended).map(|work| &work.unconfirmed);
    let mut holders = record.holders.clone();
    holders.retain(|slot| unconfirmed.is_none_or(|nodes| nodes.contains(slot)));
    // What a node had that was forgotten is of no use.
    let is_cache = |slot: &Slot| !holders.contains(slot) && cx.view.map().node(*slot).is_some();
    let mut caches: Vec<Slot> = match unconfirmed {
        Some(nodes) => nodes.iter().copied().filter(is_cache).collect(),
        None => led.caches_of(id).filter(is_cache).collect(),
    };
    let Record { birth, content, mut copies, mut copies_min, .. } = *record;
    if counted::is_cache(record) {
        // No node keeps a copy of it.
        (copies, copies_min) = (0, 0);
        caches.extend(std::mem::take(&mut holders));
        caches.sort_unstable();
    }
    let found = Found { birth, content, copies, copies_min, holders, caches };
    Some(Place { standing, found: Some(found), primary })
}

/// An object of which all copies that are reached are damaged exists and can be deleted, and a put
/// of its id is refused; its bytes come from nowhere.
fn damaged(led: &Led, cx: &Context<'_>, id: &ObjectId) -> Option<Answer> {
    let record = led.record(id).filter(|record| record.state == State::Live)?;
    let is_there = |slot: &Slot| led.is_damaged(id, *slot) && cx.view.is_live(*slot);
    let (birth, content, sources, keeps) = (record.birth, record.content, Vec::new(), false);
    let is_damaged = record.holders.iter().any(is_there);
    is_damaged.then_some(Answer::Found { birth, content, sources, keeps })
}

/// Where every copy is damaged a get is told so: it would wait for what does not come. A copy on a
/// node that is away, or that was asked to keep one and has not answered, may be right.
fn all_damaged(led: &Led, cx: &Context<'_>, id: &ObjectId) -> Option<Answer> {
    let record = led.record(id).filter(|record| record.state == State::Live)?;
    let has_answered = led.work.get(id).is_none_or(|work| work.missing.is_empty());
    let is_known = has_answered && led.knows_all(cx) && led.is_surveyed(cx);
    let may_have = record.holders.iter().copied().chain(led.caches_of(id));
    let mut may_have = may_have.filter(|slot| cx.view.has(*slot));
    let is_all = led.has_damaged(id) && may_have.all(|slot| led.is_damaged(id, slot));
    (is_known && is_all).then_some(Answer::Damaged(record.birth))
}

fn answer(led: &Led, cx: &Context<'_>, from: Slot, id: &ObjectId) -> Option<Answer> {
    let Some(record) = led.record(id) else {
        let absent = led.knows_all(cx) || cx.view.config.breaks(Mutation::AbsentWhenIncomplete);
        return absent.then_some(Answer::Absent);
    };
    let work = led.work.get(id);
    let (doubt, ended) = work.map_or((false, false), |work| (work.doubt, work.ended));
    // Before an earlier primary lost the group, clients may have seen it.
    let inherited = work.is_some_and(|work| work.inherited);
    match record.state {
        State::Pending if doubt || inherited => None,
        State::Pending | State::Withdrawn => Some(Answer::Absent),
        State::Dead if ended => Some(Answer::Deleted),
        State::Dead if doubt => None,
        // Deleted before its commit came, and its bytes are not known: an object has attributes.
        State::Dead if record.content == Content::default() => None,
        // Until all acting nodes know that it ended, another primary could say that it exists.
        // Without a holder the nodes that may have cached copies are asked first.
        State::Live | State::Dead if record.holders.is_empty() => None,
        State::Live | State::Dead => {
            let mut sources = led.sources(cx, id);
            let own = sources.iter().position(|slot| *slot == from);
            // The asking node last: it asks because it has no copy, or has one that is not visible.
            if let Some(own) = own {
                let own = sources.remove(own);
                sources.push(own);
            }
            let is_there = !sources.is_empty();
            sources.truncate(SOURCES_MAX);
            let (birth, content) = (record.birth, record.content);
            let keeps = record.holders.contains(&from) && !counted::is_cache(record);
            is_there.then_some(Answer::Found { birth, content, sources, keeps })
        }
        State::Lost => Some(Answer::Lost(record.birth)),
    }
}
