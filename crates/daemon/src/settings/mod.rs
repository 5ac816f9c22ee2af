//! Where the daemon's settings come from: defaults, then a file, the environment, the flags.
//!
//! ```text
//! proto::settings::SETTINGS ──► flags, variables and keys of the file are made from the one table
//! defaults < --config FILE < PLASMON_* < --flags ──► Settings ──► Config (checked, typed)
//! ```
//!
//! The effective strings are kept: the keeper starts the next daemon with exactly these, even if
//! the file or the environment has changed in between.

mod bad_start;
pub mod config;
mod durable;
mod files;
pub mod flags;
mod names;
mod pool;
mod spill_place;
mod tls;

use std::collections::BTreeMap;
use std::path::Path;

use plasmon_proto::settings::{SETTINGS, Settings};

pub use bad_start::BadStart;
pub use config::{Config, Spill};
pub use durable::Durable;
pub use flags::{Invocation, Role};
pub use names::{flag_of, variable_of};
pub use pool::Pool;
pub use tls::Tls;

/// Settings with the strings that they were parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsInput {
    /// The settings.
    pub settings: Settings,
    /// The strings of those that were set explicitly.
    pub values: BTreeMap<&'static str, String>,
}

impl SettingsInput {
    fn new() -> Self {
        Self { settings: Settings::default(), values: BTreeMap::new() }
    }

    fn set(&mut self, key: &str, value: &str, origin: &str) -> Result<(), BadStart> {
        let wrong = |source| BadStart::Setting { origin: origin.to_owned(), source };
        // Chosen once: a daemon that takes the store over looks in the same folder.
        let chosen = spill_place::chosen(key, value)?;
        let value = chosen.as_deref().unwrap_or(value);
        self.settings.set(key, value).map_err(wrong)?;
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
            self.values.insert(setting.key, value.to_owned());
        }
        Ok(())
    }

    /// The settings as flags, in the order of the reference page.
    pub fn as_flags(&self) -> Vec<String> {
        let flag = |(key, value): (&&str, &String)| format!("--{}={value}", flag_of(key));
        self.values.iter().map(flag).collect()
    }
}

/// Puts the sources together; later ones win. `variable` looks an environment variable up.
pub fn load(
    file: Option<&Path>,
    variable: impl Fn(&str) -> Option<String>,
    flags: &[(&'static str, String)],
) -> Result<SettingsInput, BadStart> {
    let mut loaded = SettingsInput::new();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| BadStart::File { path: path.to_owned(), source })?;
        load_toml(&mut loaded, path, &text)?;
    }
    for setting in SETTINGS {
        let name = variable_of(setting.key);
        // An empty variable is how a shell says "not set".
        if let Some(value) = variable(&name).filter(|value| !value.is_empty()) {
            loaded.set(setting.key, &value, &format!("environment variable {name}"))?;
        }
    }
    for (key, value) in flags {
        loaded.set(key, value, &format!("flag --{}", flag_of(key)))?;
    }
    Ok(loaded)
}

fn load_toml(loaded: &mut SettingsInput, path: &Path, text: &str) -> Result<(), BadStart> {
    let table: toml::Table = text.parse().map_err(|source: toml::de::Error| BadStart::Toml {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    let origin = path.display().to_string();
    for (key, value) in &table {
        loaded.set(key, &text_of(value), &origin)?;
    }
    Ok(())
}

/// A TOML value as it would be written in a flag.
fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
