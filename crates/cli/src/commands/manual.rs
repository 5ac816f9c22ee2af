//! `plasmon man`: pages of the manual, made from the text of `--help`.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::arguments::{Arguments, Manual};
use crate::failure::usage;

/// Prints the page of a command, or writes all of them into a folder.
pub(super) fn manual(manual: &Manual) -> Result<()> {
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    if let Some(folder) = &manual.out {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        return write_all(&root, "plasmon", folder);
    }
    let (mut found, mut name) = (&root, "plasmon".to_owned());
    for word in &manual.command {
        let next = found.get_subcommands().find(|it| it.get_name() == word && !it.is_hide_set());
        let Some(next) = next else {
            bail!(usage(format!("there is no command \"{}\"", manual.command.join(" "))));
        };
        found = next;
        name = format!("{name}-{word}");
    }
    std::io::stdout().lock().write_all(&page(found, &name)?)?;
    Ok(())
}

fn write_all(command: &Command, name: &str, folder: &Path) -> Result<()> {
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, page(command, name)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    for own in command.get_subcommands().filter(|own| !own.is_hide_set()) {
        write_all(own, &format!("{name}-{}", own.get_name()), folder)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    // The name of a page has no spaces, and lives as long as the process.
    let name: &'static str = name.to_owned().leak();
    Man::new(command.clone().name(name)).title(name).section("1").render(&mut page)?;
    Ok(page)
}
