use plasmon_proto::message::Reply;

use super::*;
use plasmon_proto::frame;
use std::thread;

const DOING: &str = "testing";

/// Rpc, and the daemon's end of their connection.
fn calls() -> (Rpc, Connection) {
    let (ours, daemons) = Connection::pair().unwrap();
    (Rpc::new(ours), daemons)
}

/// The next request that the daemon reads, if there is one.
fn read(daemon: &Connection) -> Option<(u64, Request)> {
    let mut bytes = Vec::new();
    match daemon.recv(&mut bytes, false) {
        Ok(_) => Some(frame::decode_request(&bytes).unwrap()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn reply(daemon: &Connection, number: u64) {
    daemon.send(&frame::encode_reply(number, &Reply::Done).unwrap(), &[]).unwrap();
}

/// A client without a channel dropped one buffer after the other. Each drop sent a message and
/// waited for room, and as no thread read the answers, the daemon stopped reading: after some 620
/// of them the program hung forever, in a destructor.
#[test]
fn taking_back_never_waits_for_a_daemon_that_does_not_read() {
    const COUNT: u64 = 100_000;
    let (calls, daemon) = calls();
    let mut is_left = false;
    for serial in 0..COUNT {
        is_left = calls.take_back(|requests| requests.release(serial));
    }
    assert!(is_left, "a caller must send the rest");
    // The daemon comes back, and the rest comes in few messages.
    let (mut serials, mut messages) = (Vec::new(), 0);
    thread::scope(|scope| {
        scope.spawn(|| calls.serve());
        let deadline = Deadline::after(Duration::from_secs(60));
        while serials.len() < COUNT as usize {
            assert!(!deadline.is_past(), "{} of {COUNT} serials came", serials.len());
            if let Some((number, Request::Release { serials: some })) = read(&daemon) {
                serials.extend(some);
                messages += 1;
                reply(&daemon, number);
            }
        }
        calls.close();
    });
    serials.sort_unstable();
    assert!(serials.into_iter().eq(0..COUNT));
    assert!(messages < COUNT / 10, "{messages} messages");
}

/// Answers that no caller waits for are read now and then, so that the daemon is never kept from
/// reading by a client that takes much back and asks nothing.
#[test]
fn answers_are_read_while_much_is_taken_back() {
    let (calls, daemon) = calls();
    let mut unread = 0u32;
    for serial in 0..5000 {
        assert!(!calls.take_back(|requests| requests.release(serial)), "the socket is full");
        let (number, _) = read(&daemon).unwrap();
        reply(&daemon, number);
    }
    let ready = await_ready(calls.lock().link.as_ref().unwrap(), true, false, Deadline::NEVER);
    assert!(ready.readable, "the last answers are left for the next call");
    let mut state = calls.lock();
    loop {
        let more;
        (state, more) = calls.read_now(state);
        if !more {
            break;
        }
        unread += 1;
    }
    assert!(unread <= SENT_UNREAD_MAX, "{unread} answers were unread");
}

#[test]
fn a_full_socket_delays_a_request_and_its_caller_sends_it() {
    let (calls, daemon) = calls();
    // What fills the socket, until something is left.
    while !calls.take_back(|requests| requests.release(1)) {}
    let number = calls.begin(DOING, Request::Status, None).unwrap();
    let soon = Deadline::after(Duration::from_millis(1));
    assert!(matches!(calls.step(&[number], soon).unwrap(), Step::TimedOut));
    thread::scope(|scope| {
        // One thread reads, so the other one must do the sending.
        let other = calls.begin(DOING, Request::Sync, None).unwrap();
        let deadline = Deadline::after(Duration::from_secs(60));
        let callers = [number, other].map(|number| {
            let calls = &calls;
            scope.spawn(move || calls.step(&[number], deadline).unwrap())
        });
        let mut answered = 0;
        while answered < 2 {
            assert!(!deadline.is_past());
            match read(&daemon) {
                Some((asked, Request::Status | Request::Sync)) => {
                    reply(&daemon, asked);
                    answered += 1;
                }
                Some((asked, _)) => reply(&daemon, asked),
                None => thread::yield_now(),
            }
        }
        for caller in callers {
            assert!(matches!(caller.join().unwrap(), Step::Answered(0, Ok(_))));
        }
    });
}

#[test]
fn an_interrupted_call_ends_while_the_daemon_is_silent() {
    let (calls, _daemon) = calls();
    let number = calls.begin(DOING, Request::Status, None).unwrap();
    let step = || calls.step(&[number], Deadline::NEVER);
    let error = interrupt::interruptible(|| true, step).unwrap_err();
    assert_eq!(error.code(), Code::Cancelled);
    // Also one that another thread reads for, and one that waits for another thread to reconnect.
    thread::scope(|scope| {
        scope.spawn(|| calls.step(&[number], Deadline::NEVER));
        let error = interrupt::interruptible(|| true, step).unwrap_err();
        assert_eq!(error.code(), Code::Cancelled);
        calls.close();
    });
}

#[test]
fn a_reconnect_is_left_to_another_thread_where_it_was() {
    let (calls, daemon) = calls();
    drop(daemon);
    let number = calls.begin(DOING, Request::Status, None).unwrap();
    let broken = || match calls.step(&[number], Deadline::NEVER).unwrap() {
        Step::Broken(link) => link,
        other => panic!("{other:?}"),
    };
    let link = broken();
    let claim = || calls.claim_reconnect(link, Deadline::after(Duration::ZERO)).unwrap();
    let ReconnectClaim::Mine(first) = claim() else { panic!("no other thread reconnects") };
    assert_eq!(claim(), ReconnectClaim::TimedOut, "one at a time");
    let claim_interrupted = || calls.claim_reconnect(link, Deadline::NEVER);
    let error = interrupt::interruptible(|| true, claim_interrupted).unwrap_err();
    assert_eq!(error.code(), Code::Cancelled);
    calls.leave_reconnect();
    assert_eq!(broken(), link);
    assert_eq!(claim(), ReconnectClaim::Mine(first), "the time counts from the break");
    let (ours, daemon) = Connection::pair().unwrap();
    calls.relink(ours, 1);
    assert_eq!(read(&daemon), Some((number, Request::Status)));
    assert_eq!(claim(), ReconnectClaim::Done);
}

#[test]
fn what_a_broken_connection_swallows_is_not_left_to_be_sent() {
    let (calls, daemon) = calls();
    drop(daemon);
    assert!(!calls.take_back(|requests| requests.release(1)));
    assert!(!calls.take_back(|requests| requests.abort(plasmon_proto::ObjectId::new([1; 20]))));
}
