//! Several processes of one node that get one object at the same time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use plasmon_client::{Client, ConnectOptions, Name};

use super::nodes::PATIENCE;
use crate::timing::nanoseconds;

/// A process that waits until it is told to get.
struct Reader {
    child: Child,
    tell: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Reader {
    fn start(socket: &Path, name: &Name) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("pool-reader").arg(socket).arg(name.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let tell = child.stdin.take().context("a pipe to a reader")?;
        let told = BufReader::new(child.stdout.take().context("a pipe from a reader")?);
        let mut reader = Self { child, tell, told };
        ensure!(reader.line()? == "ready", "a reader is ready");
        Ok(reader)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.told.read_line(&mut line)?;
        ensure!(read > 0, "a reader has ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It has answered, or the measurement has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long each of so many processes took to get an object that their node did not have.
pub(super) fn get_at_once(socket: &Path, name: &Name, count: usize) -> Result<Vec<f64>> {
    let readers = (0..count).map(|_| Reader::start(socket, name));
    let mut readers: Vec<Reader> = readers.collect::<Result<_>>()?;
    for reader in &mut readers {
        reader.tell.write_all(b"go\n")?;
    }
    readers.iter_mut().map(|reader| Ok(reader.line()?.parse()?)).collect()
}

/// What `plasmon-bench pool-reader` does.
pub(crate) fn read(socket: &str, name: &str) -> Result<()> {
    let socket = Some(socket.into());
    let options = ConnectOptions { socket, name: "reader".into(), ..ConnectOptions::default() };
    let client = Client::connect(&options)?;
    let mut answers = std::io::stdout().lock();
    answers.write_all(b"ready\n")?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let begin = Instant::now();
    let found = client.get_named(&Name::new("", name)?, Some(PATIENCE))?;
    writeln!(answers, "{}", nanoseconds(begin.elapsed()))?;
    drop(found);
    Ok(())
}
