//! What the node's crates ask of the world outside goes through `shm::edge`, or the simulator
//! cannot see it (`docs/adr/0045`).

use crate::finding::Finding;
use crate::rust::RustSource;

use crate::tree::crate_of;

const RULE: &str = "edge";

/// The crates whose code the simulator runs.
const SIMULATED: &[&str] =
    &["crates/shm", "crates/spill", "crates/keeper", "crates/daemon", "crates/client"];

/// The edge itself.
const EDGE: &[&str] =
    &["crates/shm/src/edge.rs", "crates/shm/src/edge/simulated.rs", "crates/shm/src/futex.rs"];

/// A call that reaches out, and what to use instead.
const CALLS: &[(&str, &str)] = &[
    ("Instant::now", "edge::now"),
    ("SystemTime::now", "edge::unix_time"),
    ("thread::sleep", "edge::sleep"),
    ("thread::spawn", "edge::start_thread"),
    ("thread::Builder", "edge::start_thread"),
    (".recv()", "edge::receive"),
    (".recv_timeout(", "edge::receive_within"),
    ("getrandom(", "edge::random"),
    ("pidfd_open(", "edge::open_process"),
    ("kill_process(", "edge::kill_process"),
    ("process::Command", "keeper::child, which the simulator knows"),
    ("PollFd::new(", "edge::ready_within"),
    ("epoll::wait(", "edge::waited_elsewhere before it"),
    ("thread::futex", "shm::futex"),
];

/// What stands before a call that the simulator sees.
const SEEN: &[&str] = &["edge::", "world."];

/// Where a call may stand all the same, and why the simulator need not see it.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/client/src/frame_reader.rs", "PollFd::new(", "edge::waited_elsewhere has waited"),
    ("crates/daemon/src/poll.rs", "epoll::wait(", "edge::waited_elsewhere has waited"),
    ("crates/daemon/src/sessions/session.rs", "PollFd::new(", "it looks and does not wait"),
    ("crates/shm/src/pidfd.rs", "PollFd::new(", "it looks and does not wait"),
    ("crates/shm/src/copy.rs", "Instant::now", "what is measured decides how bytes are copied"),
    ("crates/shm/src/copy.rs", "thread::Builder", "the threads end before the call does"),
    ("crates/client/src/connection.rs", "thread::Builder", "for pending waits; simulated has none"),
    ("crates/daemon/src/log.rs", ".recv()", "the log of a simulated daemon has no thread"),
    ("crates/daemon/src/log.rs", ".recv_timeout(", "the log of a simulated daemon has no thread"),
    ("crates/keeper/src/child.rs", "process::Command", "in a simulated world it asks that"),
    ("crates/daemon/src/program.rs", "process::Command", "simulated daemons have no command line"),
    ("crates/client/src/start.rs", "process::Command", "simulated daemons have no command line"),
];

/// Checks the product code of the crates that are simulated.
pub(super) fn check(sources: &[RustSource<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let path = source.file.path.as_str();
        let is_simulated = SIMULATED.contains(&crate_of(path)) && path.contains("/src/");
        if !is_simulated || EDGE.contains(&path) {
            continue;
        }
        for (line, code) in source.product_lines() {
            let called = CALLS.iter().filter(|(call, _)| reaches_out(code, call));
            for (call, instead) in called.filter(|(call, _)| !is_excepted(path, call)) {
                let message = format!("the simulator does not see {call}: use {instead}");
                findings.push(Finding::at(path, line, RULE, message));
            }
        }
    }
    findings
}

fn reaches_out(code: &str, call: &str) -> bool {
    code.match_indices(call).any(|(at, _)| !SEEN.iter().any(|seen| code[..at].ends_with(seen)))
}

fn is_excepted(path: &str, call: &str) -> bool {
    EXCEPTIONS.iter().any(|(file, excepted, _)| *file == path && *excepted == call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn count(path: &str, text: &str) -> usize {
        check(&super::super::sources(&Tree::of(&[(path, text)]))).len()
    }

    #[test]
    fn the_clock_and_its_like_are_asked_at_the_edge() {
        for call in ["Instant::now()", "thread::sleep(TIME)", "inbox.recv()", "kill_process(pid)"] {
            let text = format!("fn f() {{ {call}; }}\n");
            assert_eq!(count("crates/daemon/src/a.rs", &text), 1, "{call}");
            assert_eq!(count("crates/shm/src/edge.rs", &text), 0, "{call} at the edge");
            assert_eq!(count("crates/cli/src/a.rs", &text), 0, "{call} in a crate beside");
            assert_eq!(count("crates/shm/examples/a.rs", &text), 0, "{call} in an example");
            let test = format!("#[cfg(test)]\nmod tests {{ {text} }}\n");
            assert_eq!(count("crates/daemon/src/a.rs", &test), 0, "{call} in a test");
        }
        assert_eq!(count("crates/daemon/src/a.rs", "fn f() { edge::kill_process(pid); }"), 0);
    }

    #[test]
    fn exceptions_are_for_one_call_in_one_file() {
        let text = "fn f() { Instant::now(); }\n";
        assert_eq!(count("crates/shm/src/copy.rs", text), 0);
        assert_eq!(count("crates/shm/src/copy.rs", "fn f() { thread::sleep(TIME); }\n"), 1);
    }
}
