//! The other process of a test: this program again, which does what it is told on its standard
//! input, line by line, and answers each line on its standard output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use plasmon_fabric::{Grant, Place, Provider};
use plasmon_testkit::pattern;
use rustix::process::{Pid, Signal, kill_process};

use crate::Side;

/// What is set for the other process, to the provider.
const VARIABLE: &str = "PLASMON_FABRIC_TEST_CHILD";

/// What begins an answer: the harness prints lines of its own.
const ANSWER: &str = "answer ";

/// The other process.
pub(crate) struct Other {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    pub(crate) fn start(provider: Provider) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child::is_told", "--nocapture"])
            .env(VARIABLE, provider.key())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Its next answer; `None` when it has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            // The harness may have begun the line with the name of the test.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return Some(answer.trim_end().to_owned());
            }
        }
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer().expect("the other process answers")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Has it killed after this time. The process is still known then: it is waited for later.
    pub(crate) fn kill_after(&self, time: Duration) -> JoinHandle<()> {
        let process = Pid::from_child(&self.process);
        std::thread::spawn(move || {
            std::thread::sleep(time);
            kill_process(process, Signal::KILL).unwrap();
        })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

pub(crate) fn grant_text(Grant { base, key, bytes }: Grant) -> String {
    format!("{base} {key} {bytes}")
}

pub(crate) fn grant_of(words: &[&str]) -> Grant {
    let number = |at: usize| words[at].parse().unwrap();
    Grant { base: number(0), key: number(1), bytes: number(2) }
}

/// The other process: nothing, unless it is one.
#[test]
fn is_told() {
    let Ok(provider) = std::env::var(VARIABLE) else { return };
    let provider = Provider::ALL.into_iter().find(|known| known.key() == provider).unwrap();
    let side = Side::open(provider).unwrap();
    let mut window = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[0] {
            "name" => to_hex(side.endpoint.name()),
            "window" => {
                let opened = side.window(vec![0; words[1].parse().unwrap()]);
                let text = grant_text(opened.grant());
                window = Some(opened);
                text
            }
            // Whether the window has the content of this seed.
            "compare" => {
                let memory = window.take().unwrap().close().unwrap();
                (*memory == pattern(words[1].parse().unwrap(), memory.len())).to_string()
            }
            // Writes the content of a seed into a window, in parts of this size, again and again
            // as often as is said, or until a write fails.
            "write" => write(&side, &words),
            _ => panic!("{line}"),
        };
        println!("{ANSWER}{answer}");
    }
}

fn write(side: &Side, words: &[&str]) -> String {
    let number = |at: usize| -> u64 { words[at].parse().unwrap() };
    let peer = side.endpoint.peer(&from_hex(words[1])).unwrap();
    let grant = grant_of(&words[2..5]);
    let content = Arc::new(pattern(number(5), grant.bytes as usize));
    let (part_bytes, rounds) = (number(6) as usize, number(7));
    for _ in 0..rounds {
        let mut count = 0;
        for start in (0..content.len()).step_by(part_bytes) {
            let to = Place { peer, window: grant, offset: start as u64 };
            let end = content.len().min(start + part_bytes);
            let put = side.endpoint.write(to, content.clone(), |all| &all[start..end], 0);
            if let Err(error) = put {
                return error.to_string();
            }
            count += 1;
        }
        for _ in 0..count {
            if let Err(error) = side.next().result {
                return error.to_string();
            }
        }
    }
    String::from("written")
}
