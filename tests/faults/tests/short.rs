//! The short form: each kind of call fails once with its first error, at the first moment, and a
//! few that once did harm. All errors at all moments: `make faults`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "in a test the panic is the report, and it says why it is skipped"
)]

use plasmon_faults::kinds::KINDS;
use plasmon_faults::supervisor::Fault;
use plasmon_faults::trial::{Bench, Scene, name, start};

/// Whether this machine lets a process filter its own system calls; where another program listens
/// to them already, it does not.
fn can_filter() -> bool {
    let supervisor = plasmon_faults::supervisor::Supervisor::default();
    match supervisor.run(|| ()) {
        Ok(thread) => thread.join().is_ok(),
        Err(error) => {
            eprintln!("skipped: this machine does not let system calls be filtered: {error}");
            false
        }
    }
}

fn fault(kind: &str, error: libc::c_int, after: u32, count: u32) -> Fault {
    let kind = KINDS.iter().find(|found| found.name == kind).unwrap();
    Fault { kind, error, after, count, process: None }
}

/// Every kind once in a scene; how many of them the scene knows.
fn every_kind(scene: Scene) -> usize {
    let mut bench = None;
    let mut hit = 0;
    for kind in KINDS {
        let fault = Fault { kind, error: kind.errors[0], after: 0, count: 1, process: None };
        let shown = match scene {
            Scene::Start => start(fault),
            _ => bench.get_or_insert_with(|| Bench::start().unwrap()).try_fault(scene, fault),
        };
        let shown = shown.unwrap_or_else(|error| panic!("{}: {error:#}", name(scene, &fault)));
        hit += usize::from(shown.failed > 0);
    }
    hit
}

#[test]
fn a_start_works_or_says_why_not() {
    if can_filter() {
        assert!(every_kind(Scene::Start) >= 20);
    }
}

#[test]
fn a_store_that_serves_goes_on() {
    if can_filter() {
        assert!(every_kind(Scene::Serve) >= 18);
    }
}

/// A signal while the kernel gathered random bytes was a panic in the client.
#[test]
fn a_client_gets_an_error_and_goes_on() {
    if !can_filter() {
        return;
    }
    assert!(every_kind(Scene::Client) >= 12);
    let fault = fault("random", libc::EINTR, 1, 1);
    let shown = Bench::start().unwrap().try_fault(Scene::Client, fault).unwrap();
    assert_eq!((shown.failed, shown.said), (1, Vec::new()));
}

/// The keeper gave up after half a second without descriptors or memory, and every object went with
/// it; and a client whose channel could not be mapped at that moment was taken for one that had
/// broken it, so that no memory was used again before its process had ended.
#[test]
fn a_shortage_while_the_daemon_is_started_again_costs_nothing() {
    if !can_filter() {
        return;
    }
    let mut bench = Bench::start().unwrap();
    let faults = [
        fault("duplicate", libc::EMFILE, 0, u32::MAX),
        fault("mmap", libc::ENOMEM, 0, u32::MAX),
        // The mappings of channels come after those of the program itself.
        fault("mmap", libc::ENOMEM, 11, 1),
        fault("mmap", libc::ENOMEM, 12, 1),
        fault("exec", libc::ENOMEM, 0, 1),
        // The keeper is told by the end of a socket that the daemon has died, and ended over this.
        fault("receive", libc::ENOMEM, 0, 1),
        // So it did when it could not look whether the daemon had ended.
        fault("poll", libc::ENOMEM, 0, 1),
        fault("send", libc::ETOOMANYREFS, 0, u32::MAX),
    ];
    for fault in faults {
        let shown = bench.try_fault(Scene::Takeover, fault);
        let shown = shown.unwrap_or_else(|e| panic!("{}: {e:#}", name(Scene::Takeover, &fault)));
        assert!(shown.failed > 0, "{}", name(Scene::Takeover, &fault));
    }
}
