use super::*;
use plasmon_proto::Code;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::frame::decode_request;
use plasmon_proto::message::{Grant, Location};
use plasmon_proto::object::{Sizes, Traits};

const DOING: &str = "testing";

fn id(number: u8) -> ObjectId {
    ObjectId::new([number; 20])
}

fn create(number: u8) -> Request {
    let (sizes, traits) = (Sizes::default(), Traits::default());
    Request::Create { id: id(number), sizes, traits, strict: false }
}

fn wait(timeout_ms: Option<u64>) -> Request {
    Request::Wait { ids: vec![id(1)], count: 1, timeout_ms, beyond_end: false }
}

fn range() -> Range {
    Range { extent: ExtentId(1), offset: 64, bytes: 128 }
}

fn answer(reply: Reply) -> Result<Answer> {
    Ok(Answer { reply, fds: Vec::new(), again: false, link: 7 })
}

/// Everything that there is to send, in its order.
fn sent(requests: &mut Requests) -> Vec<Request> {
    let messages = std::iter::from_fn(|| requests.next());
    messages.map(|message| decode_request(&message.frame).unwrap().1).collect()
}

#[test]
fn what_is_taken_back_goes_first_in_as_few_messages_as_possible() {
    let mut requests = Requests::new();
    requests.add(DOING, Request::Status, None).unwrap();
    (0..2 * REQUEST_IDS_MAX as u64 + 1).for_each(|serial| requests.release(serial));
    requests.abort(id(9));
    let sent = sent(&mut requests);
    let released = |request: &Request| match request {
        Request::Release { serials } => serials.len(),
        other => panic!("{other:?} instead of a release"),
    };
    let sizes: Vec<usize> = sent[..3].iter().map(released).collect();
    assert_eq!(sizes, [REQUEST_IDS_MAX, REQUEST_IDS_MAX, 1]);
    assert_eq!(sent[3..], [Request::Abort { id: id(9) }, Request::Status]);
    assert!(!requests.has_unsent());
}

#[test]
fn a_message_that_was_not_taken_is_the_next_one_again() {
    let mut requests = Requests::new();
    let first = requests.add(DOING, Request::Status, None).unwrap();
    requests.add(DOING, Request::Sync, None).unwrap();
    let message = requests.next().unwrap();
    assert_eq!(message.number, Some(first));
    requests.put_back(message);
    requests.release(1);
    let expected = [Request::Status, Request::Release { serials: vec![1] }, Request::Sync];
    assert_eq!(sent(&mut requests), expected);
}

#[test]
fn what_was_never_sent_is_simply_not_sent() {
    let mut requests = Requests::new();
    // Many of them: their numbers do not stay forever.
    for _ in 0..1000 {
        let number = requests.add(DOING, wait(None), None).unwrap();
        requests.abandon(number);
    }
    assert!(requests.unsent.len() <= UNSENT_GONE_MAX + 1);
    assert_eq!(sent(&mut requests), []);
}

#[test]
fn a_wait_is_cancelled_when_its_caller_goes_and_an_object_is_aborted() {
    let mut requests = Requests::new();
    let waiting = requests.add(DOING, wait(None), None).unwrap();
    let creating = requests.add(DOING, create(2), None).unwrap();
    sent(&mut requests);
    requests.abandon(waiting);
    requests.abandon(creating);
    let expected = [Request::Abort { id: id(2) }, Request::Cancel { request: waiting }];
    assert_eq!(sent(&mut requests), expected);
    // Answers that still come are for no thread.
    assert!(requests.deliver(waiting, answer(Reply::Done)).is_none());
    assert!(requests.take(&[waiting]).is_none());
}

#[test]
fn pins_and_memory_that_come_too_late_are_given_back() {
    let mut requests = Requests::new();
    let get = Request::Get { ids: vec![id(1), id(2)] };
    let located = || {
        let traits = Traits::default();
        let location =
            |serial| Ok(Location { serial, range: range(), sizes: Sizes::default(), traits });
        answer(Reply::Located(vec![location(5), location(6)]))
    };
    let granted =
        || answer(Reply::Lease(Grant { range: range(), warm: false, extent_bytes: 4096 }));
    // Abandoned before the answer came, and after.
    for early in [true, false] {
        let getting = requests.add(DOING, get.clone(), None).unwrap();
        let leasing = Request::Lease { bytes_min: 64, bytes_wanted: 64 };
        let leasing = requests.add(DOING, leasing, None).unwrap();
        sent(&mut requests);
        let abandon = |requests: &mut Requests| {
            requests.abandon(getting);
            requests.abandon(leasing);
        };
        if early {
            abandon(&mut requests);
        }
        requests.deliver(getting, located());
        requests.deliver(leasing, granted());
        if !early {
            abandon(&mut requests);
        }
        assert_eq!(sent(&mut requests), [Request::Release { serials: vec![5, 6] }]);
        assert_eq!(requests.take_strays(), [(range(), 7)]);
        assert!(requests.slots.is_empty());
    }
}

#[test]
fn a_new_connection_is_asked_what_was_unanswered_and_nothing_is_taken_back_on_it() {
    let mut requests = Requests::new();
    let answered = requests.add(DOING, Request::Sync, None).unwrap();
    let status = requests.add(DOING, Request::Status, None).unwrap();
    sent(&mut requests);
    requests.deliver(answered, answer(Reply::Done));
    let fresh = requests.add(DOING, create(3), None).unwrap();
    requests.release(1);
    let refused = requests.next().unwrap();
    requests.put_back(refused);
    requests.send_again();
    assert_eq!(sent(&mut requests), [Request::Status, create(3)]);
    requests.deliver(status, answer(Reply::Done));
    requests.deliver(fresh, answer(Reply::Done));
    let again =
        |requests: &mut Requests, number| requests.take(&[number]).unwrap().1.unwrap().again;
    assert!(!again(&mut requests, answered) && again(&mut requests, status));
    assert!(!again(&mut requests, fresh), "it was sent once");
}

#[test]
fn signals_are_counted_however_a_request_ends() {
    let mut requests = Requests::new();
    let signal = Arc::new(Doorbell::new().unwrap());
    let add = |requests: &mut Requests| {
        requests.add(DOING, wait(Some(5)), Some(Arc::clone(&signal))).unwrap()
    };
    let numbers: Vec<u64> = (0..4).map(|_| add(&mut requests)).collect();
    assert!(requests.has_signalled());
    requests.abandon(numbers[0]);
    sent(&mut requests);
    requests.abandon(numbers[1]);
    assert!(requests.deliver(numbers[2], answer(Reply::Done)).is_some());
    assert!(requests.has_signalled());
    let failed = requests.fail_all(&|| Error::new(Code::Disconnected, DOING));
    assert_eq!((failed.len(), requests.has_signalled()), (1, false));
    // Taken and abandoned later, it is not counted twice.
    requests.take(&[numbers[2]]).unwrap().1.unwrap();
    requests.abandon(numbers[3]);
    assert!(!requests.has_signalled());
}

#[test]
fn a_wait_that_was_not_sent_is_ended_by_asking_for_no_time() {
    let mut requests = Requests::new();
    let number = requests.add(DOING, wait(None), None).unwrap();
    requests.cancel(number);
    assert_eq!(sent(&mut requests), [wait(Some(0))]);
    requests.cancel(number);
    assert_eq!(sent(&mut requests), [Request::Cancel { request: number }]);
}

#[test]
fn returns_are_read_when_the_daemon_has_answered_after_them() {
    let mut requests = Requests::new();
    assert_eq!(requests.unread_returns(), None);
    requests.release(1);
    let count = requests.unread_returns().unwrap();
    requests.release(2);
    requests.returns_read(count);
    assert_eq!(requests.unread_returns(), Some(2));
    requests.returns_read(2);
    assert_eq!(requests.unread_returns(), None);
}
