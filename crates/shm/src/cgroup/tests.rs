//! Control groups of both versions, as trees of files.

use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;

/// A file system with these files.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

const MOUNT_2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn version_2_the_tightest_group_above_counts() {
    let root = tree(&[
        ("proc/self/cgroup", "0::/user.slice/app.scope\n"),
        ("proc/self/mountinfo", MOUNT_2),
        ("sys/fs/cgroup/user.slice/memory.max", "268435456\n"),
        ("sys/fs/cgroup/user.slice/memory.current", "134217728\n"),
        ("sys/fs/cgroup/user.slice/memory.stat", "anon 5\ninactive_file 1048576\nactive_file 0\n"),
        ("sys/fs/cgroup/user.slice/memory.events", "low 0\noom 3\noom_kill 2\n"),
        ("sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n"),
        ("sys/fs/cgroup/user.slice/app.scope/memory.current", "1\n"),
    ]);
    let groups = Groups::under(root.path());
    let (limit, folder) = groups.limit().unwrap();
    assert_eq!((limit, folder.file_name().unwrap().to_str()), (256 * MIB, Some("user.slice")));
    // The limit less what is in use and cannot be given back, and less the margin.
    assert_eq!(groups.headroom_bytes(), Some(256 * MIB - 127 * MIB - 8 * MIB));
    assert_eq!(groups.kills(), 2);
}

#[test]
fn version_1_also_where_a_container_sees_only_its_own_part_of_the_tree() {
    let mount = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let root = tree(&[
        ("proc/self/cgroup", "5:cpu:/docker/abc\n4:hugetlb,memory:/docker/abc/inner\n0::/\n"),
        ("proc/self/mountinfo", mount),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "67000000\n"),
        ("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\noom_kill 7\n"),
        ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/inner/memory.usage_in_bytes", "1\n"),
    ]);
    let groups = Groups::under(root.path());
    assert_eq!(groups.limit().unwrap().0, 64 * MIB);
    assert_eq!((groups.headroom_bytes(), groups.kills()), (Some(0), 7));
}

#[test]
fn without_limits_or_with_nonsense_there_is_no_limit() {
    let nonsense = [("proc/self/cgroup", "0:\nx\n0::/../..\n"), ("proc/self/mountinfo", "- -\n")];
    let unlimited = [
        ("proc/self/cgroup", "0::/\n"),
        ("proc/self/mountinfo", MOUNT_2),
        ("sys/fs/cgroup/cgroup.procs", "1\n"),
    ];
    for files in [&[][..], &nonsense, &unlimited] {
        let root = tree(files);
        let groups = Groups::under(root.path());
        assert_eq!((groups.limit(), groups.headroom_bytes()), (None, None), "{files:?}");
        let mut headroom = Headroom::new(groups, None);
        assert_eq!(headroom.take(u64::MAX, Instant::now()), Ok(()));
    }
    // The process itself has some groups or none; either can be read.
    let _ = Groups::of_this_process().headroom_bytes();
}

fn limited(limit: &str, usage: &str) -> (TempDir, Groups) {
    let root = tree(&[
        ("proc/self/cgroup", "0::/\n"),
        ("proc/self/mountinfo", MOUNT_2),
        ("sys/fs/cgroup/memory.max", limit),
        ("sys/fs/cgroup/memory.current", usage),
    ]);
    let groups = Groups::under(root.path());
    (root, groups)
}

#[test]
fn memory_is_admitted_up_to_the_margin_and_looked_at_again_in_time() {
    let (root, groups) = limited("134217728", "0");
    let mut headroom = Headroom::new(groups, None);
    let now = Instant::now();
    assert_eq!(headroom.take(124 * MIB + 1, now), Err(124 * MIB));
    assert_eq!(headroom.take(100 * MIB, now), Ok(()));
    fs::write(root.path().join("sys/fs/cgroup/memory.current"), "104857600").unwrap();
    assert_eq!(headroom.take(24 * MIB + 1, now), Err(24 * MIB));
    // Another process of the group took the rest.
    fs::write(root.path().join("sys/fs/cgroup/memory.current"), "134217728").unwrap();
    assert_eq!(headroom.take(MIB, now), Ok(()), "what is believed for a moment");
    assert_eq!(headroom.take(MIB, now + LOOK_EVERY), Err(0));
}

#[test]
fn what_killed_one_daemon_is_not_tried_by_the_next_for_a_while() {
    let (_root, groups) = limited("134217728", "0");
    let now = Instant::now();
    let until = now + Duration::from_secs(10);
    let mut headroom = Headroom::new(groups, Some((8 * MIB, until)));
    assert!(headroom.take(8 * MIB, now).is_err());
    assert!(headroom.take(8 * MIB - 1, now).is_ok());
    assert!(headroom.take(8 * MIB, until).is_ok());
}
