//! Machines of a test: network namespaces, each with an address of its own on one bridge.
//!
//! ```text
//!   test ── bridge 10.N.M.1 ─┬─ veth ─ machine 0, 10.N.M.2
//!                            ├─ veth ─ machine 1, 10.N.M.3
//!                            └─ veth ─ ..
//! ```
//!
//! A process of its own removes them, with whatever runs in them, when the value is dropped and
//! also when the process of the test ends in any other way: it waits for the end of a pipe that
//! only the test has.

#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Removes the bridge `$1` and the namespaces after it.
const JANITOR: &str = r#"
trap '' HUP INT TERM
read -r _
bridge=$1
shift
for namespace; do
    for _ in $(seq 200); do
        pids=$(ip netns pids "$namespace")
        [ "$pids" ] || break
        kill -9 $pids
        sleep 0.05
    done
    ip netns del "$namespace"
done
ip link del "$bridge"
"#;

/// Subnets are 10.200.0.0/24 to 10.249.255.0/24.
const SUBNETS: u32 = 50 * 256;

/// The machines. They end with the value, and all processes on them.
#[derive(Debug)]
pub(crate) struct Network {
    bridge: String,
    subnet: [u8; 3],
    /// The pipe, and the process that waits for its end.
    janitor: Option<(ChildStdin, Child)>,
}

impl Network {
    /// So many machines; `None` where they cannot be made, and a sentence that says why.
    pub(crate) fn start(count: usize) -> Option<Self> {
        let Some(reason) = obstacle() else { return Some(Self::make(count)) };
        eprintln!("skipped: network namespaces cannot be made: {reason}");
        None
    }

    fn make(count: usize) -> Self {
        let number = next_number();
        let bridge = format!("pt{}-{number}", std::process::id());
        let subnet = free_subnet(std::process::id().wrapping_mul(61).wrapping_add(number));
        let mut network = Self { bridge, subnet, janitor: None };
        let mut janitor = Command::new("sh")
            .args(["-c", JANITOR, "sh", &network.bridge])
            .args((0..count).map(|at| network.namespace(at)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the test alone.
            .process_group(0)
            .spawn()
            .unwrap();
        network.janitor = Some((janitor.stdin.take().unwrap(), janitor));
        let bridge = network.bridge.as_str();
        ip(&["link", "add", bridge, "type", "bridge"]);
        ip(&["addr", "add", &format!("{}/24", network.own_address()), "dev", bridge]);
        ip(&["link", "set", bridge, "up"]);
        (0..count).for_each(|at| network.add(at));
        network
    }

    fn add(&self, at: usize) {
        let (name, link) = (&self.namespace(at), &self.link(at));
        ip(&["netns", "add", name]);
        ip(&["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name]);
        ip(&["link", "set", link, "master", &self.bridge, "up"]);
        ip(&["-n", name, "addr", "add", &format!("{}/24", self.address(at)), "dev", "eth0"]);
        ip(&["-n", name, "link", "set", "eth0", "up"]);
        ip(&["-n", name, "link", "set", "lo", "up"]);
    }

    fn namespace(&self, at: usize) -> String {
        format!("{}-{at}", self.bridge)
    }

    /// The end of a machine's cable at the bridge.
    fn link(&self, at: usize) -> String {
        format!("{}-{at}", self.bridge)
    }

    /// The address of the test itself.
    pub(crate) fn own_address(&self) -> Ipv4Addr {
        self.address_of(1)
    }

    pub(crate) fn address(&self, at: usize) -> Ipv4Addr {
        self.address_of(2 + u8::try_from(at).unwrap())
    }

    fn address_of(&self, host: u8) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, host)
    }

    /// What a command begins with that runs on a machine.
    pub(crate) fn inside(&self, at: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace(at)].map(str::to_owned).to_vec()
    }

    /// Runs a function on a machine; a thread that ends with it.
    pub(crate) fn run_inside<T: Send>(&self, at: usize, run: impl FnOnce() -> T + Send) -> T {
        let namespace = std::fs::File::open(format!("/run/netns/{}", self.namespace(at))).unwrap();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let kind = LinkNameSpaceType::Network;
                move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
                run()
            });
            running.join().unwrap()
        })
    }

    /// The switch forgets a machine: its link is up, and nothing arrives.
    pub(crate) fn cut(&self, at: usize) {
        ip(&["link", "set", &self.link(at), "nomaster"]);
    }

    /// Undoes [`cut`](Self::cut).
    pub(crate) fn join(&self, at: usize) {
        ip(&["link", "set", &self.link(at), "master", &self.bridge]);
    }

    /// The cable of a machine is pulled out.
    pub(crate) fn unplug(&self, at: usize) {
        ip(&["link", "set", &self.link(at), "down"]);
    }

    /// The cable is put in again.
    pub(crate) fn plug(&self, at: usize) {
        ip(&["link", "set", &self.link(at), "up"]);
    }

    /// What one machine sends to another one vanishes until the end of the value; the other
    /// direction is as it was.
    pub(crate) fn block(&self, from: usize, to: usize) -> Block<'_> {
        self.route_of_block("add", from, to);
        Block { network: self, from, to }
    }

    fn route_of_block(&self, verb: &str, from: usize, to: usize) {
        let to = format!("{}/32", self.address(to));
        ip(&["-n", &self.namespace(from), "route", verb, "blackhole", &to]);
    }

    /// So many megabits go through the cable of a machine per second, in each direction.
    pub(crate) fn limit(&self, at: usize, mbit_per_s: u32) {
        let rate = format!("{mbit_per_s}mbit");
        let bucket =
            |dev| ["qdisc", "add", "dev", dev, "root", "tbf", "rate", &rate, "burst", "64kb"];
        let queue = ["latency", "100ms"];
        let link = self.link(at);
        command("tc", &[&bucket(&link)[..], &queue].concat());
        let namespace = self.namespace(at);
        command("tc", &[&["-n", &namespace][..], &bucket("eth0"), &queue].concat());
    }

    /// The bytes that a machine has received so far.
    pub(crate) fn received_bytes(&self, at: usize) -> u64 {
        // What the other end of the link sends is what it receives.
        self.counter(at, "tx_bytes")
    }

    /// The bytes that a machine has sent so far.
    pub(crate) fn sent_bytes(&self, at: usize) -> u64 {
        self.counter(at, "rx_bytes")
    }

    fn counter(&self, at: usize, name: &str) -> u64 {
        let path = format!("/sys/class/net/{}/statistics/{name}", self.link(at));
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }

    /// An address for a machine's own use, beside the one that it has.
    pub(crate) fn add_local_address(&self, at: usize, address: Ipv4Addr) {
        let address = format!("{address}/32");
        ip(&["-n", &self.namespace(at), "addr", "add", &address, "dev", "lo"]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Some((mut pipe, mut janitor)) = self.janitor.take() else { return };
        let _ = pipe.write_all(b"\n");
        drop(pipe);
        let _ = janitor.wait();
    }
}

/// A number that nothing else of this process has.
fn next_number() -> u32 {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    DRAWN.fetch_add(1, Ordering::Relaxed)
}

/// A direction that is blocked.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    network: &'a Network,
    from: usize,
    to: usize,
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.network.route_of_block("del", self.from, self.to);
    }
}

/// Why namespaces cannot be made, if they cannot.
fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root may".to_owned());
    }
    let name = format!("pt{}-{}", std::process::id(), next_number());
    match Command::new("ip").args(["netns", "add", &name]).output() {
        Err(error) => Some(format!("ip: {error}; apt-get install iproute2 brings it")),
        Ok(output) if !output.status.success() => {
            Some(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(_) => {
            ip(&["netns", "del", &name]);
            None
        }
    }
}

/// The first three bytes of addresses that this machine does not have.
fn free_subnet(start: u32) -> [u8; 3] {
    let used = command("ip", &["-o", "-4", "addr"]) + &command("ip", &["-4", "route"]);
    let subnets = (0..SUBNETS).map(|step| (start.wrapping_add(step)) % SUBNETS);
    let mut subnets = subnets.map(|number| [10, 200 + (number / 256) as u8, number as u8]);
    let is_free = |[a, b, c]: &[u8; 3]| !used.contains(&format!("{a}.{b}.{c}."));
    subnets.find(is_free).expect("no subnet of 10.200.0.0 to 10.249.0.0 is free")
}

fn ip(words: &[&str]) {
    command("ip", words);
}

/// Runs a program; what it printed.
fn command(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {errors}", words.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
