//! How much memory a sort in this process can have.

use std::fs;
use std::io;
use std::path::Path;

use plasmon_shm::cgroup::Groups;

/// The memory that this process can have: what the machine has available, or less where one of its
/// control groups leaves less.
pub fn available_bytes() -> io::Result<u64> {
    available_bytes_under(Path::new("/"))
}

/// The same, with the system's files below another root.
pub fn available_bytes_under(root: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo"))?;
    let machine = machine_bytes(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemAvailable in kB")
    })?;
    Ok(Groups::under(root).headroom_bytes().map_or(machine, |groups| groups.min(machine)))
}

/// The memory that programs can have, as `/proc/meminfo` says it.
fn machine_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const MIB: u64 = 1 << 20;
    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:  2097152 kB\nMemAvailable:    1048576 kB\n");
    const MOUNT_1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const MOUNT_2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    /// A file system with these files.
    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [MEMINFO].iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn available(files: &[(&str, &str)]) -> u64 {
        available_bytes_under(tree(files).path()).unwrap()
    }

    #[test]
    fn without_control_groups_the_machine_counts() {
        assert_eq!(available(&[]), 1024 * MIB);
        let unlimited = [
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", MOUNT_2),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
        ];
        assert_eq!(available(&unlimited), 1024 * MIB);
        let empty = tempfile::tempdir().unwrap();
        assert!(available_bytes_under(empty.path()).is_err());
        assert_eq!(machine_bytes("MemAvailable: much\n"), None);
    }

    /// `plasmon sort` looked at no control group, Python only at the root of version 2: in a
    /// container within a limited group both believed in the machine's memory, and were killed.
    #[test]
    fn the_tightest_group_above_this_process_counts() {
        let nested = [
            ("proc/self/cgroup", "0::/pod/container\n"),
            ("proc/self/mountinfo", MOUNT_2),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "268435456\n"),
            ("sys/fs/cgroup/pod/memory.current", "134217728\n"),
            ("sys/fs/cgroup/pod/container/memory.max", "max\n"),
        ];
        // 256 MiB less what is used, and less a margin of a 32nd.
        assert_eq!(available(&nested), (256 - 128 - 8) * MIB);
    }

    /// Neither of the two looked at version 1.
    #[test]
    fn groups_of_version_1_count() {
        let first = [
            ("proc/self/cgroup", "4:hugetlb,memory:/job\n"),
            ("proc/self/mountinfo", MOUNT_1),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "134217728\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "67108864\n"),
        ];
        assert_eq!(available(&first), (128 - 64 - 4) * MIB);
    }

    /// The page cache of files that were read counts as used, and the kernel takes it back first.
    #[test]
    fn the_page_cache_of_a_group_is_available() {
        let cached = [
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", MOUNT_2),
            ("sys/fs/cgroup/memory.max", "268435456\n"),
            ("sys/fs/cgroup/memory.current", "268435456\n"),
            ("sys/fs/cgroup/memory.stat", "inactive_file 134217728\nactive_file 0\n"),
        ];
        assert_eq!(available(&cached), (128 - 8) * MIB);
    }

    #[test]
    fn this_machine_has_some() {
        assert!(available_bytes().unwrap() > 0);
    }
}
