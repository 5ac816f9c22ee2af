//! What tells whether two processes can use shared memory of each other.

use std::os::unix::fs::MetadataExt;

/// Bytes of the text at most.
pub const MACHINE_BYTES_MAX: usize = 160;

/// A text that two processes have in common if they run on one machine since the same start of it,
/// know each other's process ids, have the same `/dev/shm`, and belong to one user. `None` where
/// the kernel does not say.
pub fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = std::fs::metadata("/proc/self/ns/pid").ok()?;
    let shared = std::fs::metadata("/dev/shm").ok()?;
    let user = rustix::process::geteuid().as_raw();
    let text = format!(
        "{} {}:{} {}:{} {user}",
        boot.trim(),
        processes.dev(),
        processes.ino(),
        shared.dev(),
        shared.ino(),
    );
    (text.len() <= MACHINE_BYTES_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_on_its_own_machine() {
        let machine = machine().unwrap();
        assert_eq!(Some(machine.clone()), super::machine());
        assert!(machine.len() > "x".repeat(36).len(), "{machine}");
    }
}
