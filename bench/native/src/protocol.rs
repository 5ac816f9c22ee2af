//! Requests and answers, as `bench/rivals/protocol.py` has them for the workers in Python.

use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What came out of a measurement.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Samples {
    /// Nanoseconds per operation, one for each batch.
    pub(crate) samples: Vec<f64>,
    /// Operations per sample.
    pub(crate) batch: u64,
}

/// When each turn of a series began or ended, in nanoseconds of the monotonic clock.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Stamps {
    pub(crate) stamps: Vec<u64>,
}

/// Answers requests until the harness closes its end.
pub(crate) fn serve<R: DeserializeOwned>(mut run: impl FnMut(R) -> Result<Value>) -> Result<()> {
    let mut answers = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.context("reading a request")?;
        let outcome = serde_json::from_str(&line).map_err(anyhow::Error::from).and_then(&mut run);
        // A failure is an answer as well: the harness reports it.
        let answer = outcome.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
        serde_json::to_writer(&mut answers, &answer)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

/// An answer as JSON.
pub(crate) fn answer(value: impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(value)?)
}
