//! The memory of this process, as the kernel lists it.

/// How the kernel calls a memfd in the lists of a process. An inode's number is one file's only on
/// its device, and libraries are on others.
const MEMFD: &str = "/memfd:";

/// The parts of this process's memory, as first address, address after the last, and memfd.
fn mappings() -> Vec<(usize, usize, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parsed = maps.lines().filter(|line| line.contains(MEMFD)).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let inode = fields.nth(3)?.parse().ok()?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some((address(start)?, address(end)?, inode))
    });
    parsed.collect()
}

/// The file that lies at this address of this process.
pub fn mapped_inode(address: usize) -> Option<u64> {
    let at = |(start, end, _): &(usize, usize, u64)| (*start..*end).contains(&address);
    mappings().into_iter().find(at).map(|(_, _, inode)| inode)
}

/// How often this process has mapped a file.
pub fn mappings_of(inode: u64) -> usize {
    mappings().into_iter().filter(|(_, _, found)| *found == inode).count()
}

/// How many bytes of a file are present in this process's memory, as far as it has touched them.
pub fn present_bytes(inode: u64) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut within, mut kib) = (false, 0);
    for line in smaps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [range, _, _, _, found, ..] if range.contains('-') => {
                within = found.parse() == Ok(inode) && line.contains(MEMFD);
            }
            ["Rss:", count, "kB"] if within => kib += count.parse::<u64>().unwrap(),
            _ => {}
        }
    }
    kib << 10
}
