//! The process that deletes the partitions of a sort whose process was killed: this program, as
//! `plasmon sort-guard`.

use anyhow::{Context, Result};
use plasmon_client::Client;
use plasmon_sort_store::GuardCommand;

/// What guards the objects of a sort into this store.
pub(super) fn command(store: &Client) -> Result<GuardCommand> {
    let program = std::env::current_exe().context("this program is not found any more")?;
    let arguments = vec!["--socket".into(), store.socket().into(), "sort-guard".into()];
    Ok(GuardCommand { program, arguments, environment: Vec::new() })
}

/// Guards the objects whose ids come through the standard input.
pub(super) fn guard(store: &Client) -> Result<()> {
    Ok(plasmon_sort_store::serve(store, std::io::stdin().lock(), std::io::stdout())?)
}
