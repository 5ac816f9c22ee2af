//! Progress bars for work that takes longer than a second, shown only on a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over a number of bytes. It draws on the standard error, which must be a terminal.
pub(crate) fn bytes(total: u64, what: &str, quiet: bool) -> ProgressBar {
    let shown = !quiet && io::stderr().is_terminal();
    let target =
        if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let template = "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A counter of the bytes read or written, for work whose total is not known.
pub(crate) fn counted(what: &str, quiet: bool) -> ProgressBar {
    let shown = !quiet && io::stderr().is_terminal();
    let target =
        if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let template = "{spinner} {msg} {bytes} {binary_bytes_per_sec} {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A bar over steps of unequal kind: it shows how much is done, and for how long it still takes.
pub(crate) fn steps(what: &str, quiet: bool) -> ProgressBar {
    let shown = !quiet && io::stderr().is_terminal();
    let target =
        if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(1), target);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent} % {eta}") {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
