use super::*;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(1);

fn pages() -> (WakePage, WakePage) {
    let memfd = WakePage::create().unwrap();
    let map = || WakePage::new(memfd.duplicate().unwrap()).unwrap();
    (map(), map())
}

fn id(number: u64) -> ObjectId {
    let mut bytes = [7; 20];
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    ObjectId::new(bytes)
}

fn words(event: &FutexEvent<'_>) -> (u32, Option<u32>) {
    let processor = event.processor.map(|word| word.load(Ordering::Relaxed));
    (event.word.load(Ordering::Relaxed), processor)
}

/// As if the sleeper were on another processor than all the others.
fn move_away(event: &FutexEvent<'_>) {
    event.processor.unwrap().store(u32::MAX, Ordering::Relaxed);
}

#[test]
fn a_sleeper_is_woken_through_another_mapping() {
    let (one, other) = pages();
    let (mail, changes) = (AtomicU32::new(0), AtomicU32::new(0));
    let is_sealed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let event = one.event(&id(1));
            while !is_sealed.load(Ordering::Acquire) {
                let set =
                    [event.set(), FutexEvent::new(&mail).set(), FutexEvent::new(&changes).set()];
                move_away(&event);
                if !is_sealed.load(Ordering::Acquire) {
                    sleep(set, LONG).unwrap();
                }
            }
            assert!(event.was_for_this());
        });
        // Not before the event is set: a hint promises nothing to who sets it at the same moment.
        while !futex_event::is_set(other.event(&id(1)).word)
            || words(&other.event(&id(1))).1 == Some(0)
        {
            std::thread::yield_now();
        }
        is_sealed.store(true, Ordering::Release);
        other.event(&id(1)).wake().unwrap();
    });
}

#[test]
fn each_of_the_events_ends_the_sleep() {
    let (page, _) = pages();
    let (mail, changes) = (AtomicU32::new(0), AtomicU32::new(0));
    let events = [page.event(&id(1)), FutexEvent::new(&mail), FutexEvent::new(&changes)];
    for event in &events {
        let set = events.map(|event| event.set());
        assert_eq!(sleep(set, SHORT).unwrap(), Outcome::TimedOut);
        event.wake().unwrap();
        assert_eq!(sleep(set, LONG).unwrap(), Outcome::Changed);
    }
}

#[test]
fn only_a_waiter_that_set_the_event_is_woken() {
    let (page, _) = pages();
    let event = page.event(&id(1));
    page.hint(&id(1)).unwrap();
    event.wake().unwrap();
    assert_eq!(words(&event), (0, Some(0)), "one load, and nothing written");
}

/// A client that is killed in its sleep leaves the event set; the first wake-up clears it.
#[test]
fn an_event_that_was_left_set_wakes_once() {
    let (page, _) = pages();
    let event = page.event(&id(1));
    event.set();
    move_away(&event);
    page.hint(&id(1)).unwrap();
    let (after, _) = words(&event);
    assert!(!futex_event::is_set(event.word));
    page.hint(&id(1)).unwrap();
    assert_eq!(words(&event).0, after);
}

#[test]
fn a_sleeper_on_the_same_processor_is_left_to_the_daemon() {
    let (page, _) = pages();
    // In a separate thread, which stays where it is.
    let pinned = std::thread::spawn(move || {
        let mut here = rustix::thread::CpuSet::new();
        here.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &here).unwrap();
        let event = page.event(&id(1));
        event.set();
        let before = words(&event);
        page.hint(&id(1)).unwrap();
        assert_eq!(words(&event), before);
        move_away(&event);
        page.hint(&id(1)).unwrap();
        assert_ne!(words(&event).0, before.0);
    });
    pinned.join().unwrap();
}

#[test]
fn a_wake_up_for_another_object_in_the_same_place_is_recognized() {
    let (page, _) = pages();
    let (here, topic) = place(&id(1));
    let neighbour = (2..).map(id).find(|other| place(other).0 == here).unwrap();
    assert_ne!(place(&neighbour).1, topic);
    let event = page.event(&id(1));
    event.set();
    move_away(&event);
    page.hint(&neighbour).unwrap();
    assert!(!event.was_for_this());
    event.set();
    move_away(&event);
    page.hint(&id(1)).unwrap();
    assert!(event.was_for_this());
}

#[test]
fn whatever_others_wrote_there_the_event_works() {
    let (page, _) = pages();
    let event = page.event(&id(1));
    for garbage in [u32::MAX, 1, 0xfffe, 0xffff, 1 << 31, 0x5555_5555] {
        event.word.store(garbage, Ordering::Relaxed);
        let set = [event.set()];
        move_away(&event);
        assert_eq!(sleep(set, SHORT).unwrap(), Outcome::TimedOut);
        page.hint(&id(1)).unwrap();
        assert_eq!(sleep(set, LONG).unwrap(), Outcome::Changed);
        assert!(event.was_for_this() && !futex_event::is_set(event.word));
    }
}

#[test]
fn ids_that_count_up_use_the_whole_page() {
    let places: HashSet<usize> =
        (0..8 * PLACES as u64).map(|number| place(&id(number)).0).collect();
    assert!(places.iter().all(|place| *place < PLACES));
    assert!(places.len() > PLACES * 9 / 10, "{}", places.len());
}

#[test]
fn other_memfds_are_refused() {
    let large = Memfd::create("plasmon-test", 2 * WAKE_PAGE_BYTES).unwrap();
    assert!(WakePage::new(large.into_fd()).is_err());
    let read_only = WakePage::create().unwrap().read_only().unwrap();
    assert!(WakePage::new(read_only).is_err());
}
