//! A connection whose program subscribed: it is told what happens, until it ends.
//!
//! The answer and the notices have the form of the store's own: a reply, then pushes.

use std::time::Duration;

use plasmon_pool::limits::LIST_MS;
use plasmon_proto::frame;
use plasmon_proto::message::{Failure, NAMED_NOTICES_MAX, NamedNotice, Notice, Push, Reply};
use plasmon_proto::pool_notice::{NamesFilter, PoolNotice};
use plasmon_proto::{Code, ObjectState};
use plasmon_shm::socket::Connection;

use crate::core::{Asker, Heard, PoolSubscription};

/// Every live node is watched within [`LIST_MS`], or the program is told of the gap.
const ANSWER_WITHIN: Duration = Duration::from_millis(LIST_MS + 2_000);

/// So often a program that is told nothing is looked at: it may have ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Tells a program what happens to objects with such names.
pub(super) fn serve(connection: &Connection, number: u64, filter: NamesFilter, node: &Asker) {
    let refused = |code, detail| Reply::Failed(Failure::of(code).with_detail(detail));
    let subscription = node.subscribe(filter);
    let reply = match subscription.as_ref().map(|it| it.next(ANSWER_WITHIN)) {
        Some(Ok(Some(Heard::Subscribed))) => Reply::Done,
        Some(_) => refused(Code::Unreachable, "this node is joining the pool"),
        None => refused(Code::LimitReached, "too many programs have subscribed on this node"),
    };
    let is_done = reply == Reply::Done;
    let sent =
        frame::encode_reply(number, &reply).is_ok_and(|it| connection.send(&it, &[]).is_ok());
    if let Some(subscription) = subscription.filter(|_| sent && is_done) {
        while go_on(connection, &subscription) {}
    }
}

/// Sends what is there, or looks whether the program is still there. Whether it is.
fn go_on(connection: &Connection, subscription: &PoolSubscription) -> bool {
    let Ok(first) = subscription.next(LOOK_EVERY) else { return false };
    let (notices, lost) = collect(subscription, first);
    let push = |push: &Push| {
        frame::encode_push(push).is_ok_and(|frame| connection.send(&frame, &[]).is_ok())
    };
    if notices.is_empty() && lost == 0 {
        return is_there(connection);
    }
    (notices.is_empty() || push(&Push::NamedNotices(notices)))
        && (lost == 0 || push(&Push::NoticesLost(lost)))
}

/// Takes what is there, as much as goes into one message; how many notices were lost after that.
fn collect(subscription: &PoolSubscription, first: Option<Heard>) -> (Vec<NamedNotice>, u64) {
    let mut notices = Vec::new();
    let mut next = first;
    loop {
        match next {
            Some(Heard::Notice(notice)) => notices.push(named(notice)),
            Some(Heard::Gap) => return (notices, u64::MAX),
            Some(Heard::Subscribed) | None => {}
        }
        if notices.len() == NAMED_NOTICES_MAX {
            return (notices, 0);
        }
        match subscription.next_queued() {
            Ok(heard) => next = Some(heard),
            Err(lost) => return (notices, lost),
        }
    }
}

fn named(notice: PoolNotice) -> NamedNotice {
    let PoolNotice { id, name, data_bytes, metadata_bytes, is_born, .. } = notice;
    let state = if is_born { ObjectState::Sealed } else { ObjectState::Deleted };
    NamedNotice { notice: Notice { id, state, data_bytes, metadata_bytes }, name }
}

/// A program that subscribed says nothing more: what it sends ends the connection, as its end does.
fn is_there(connection: &Connection) -> bool {
    let mut bytes = Vec::new();
    let received = connection.recv(&mut bytes, false);
    received.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
