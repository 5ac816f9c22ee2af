//! Why a daemon does not start.

use std::path::PathBuf;

use plasmon_proto::settings::BadSetting;

/// Why the daemon cannot start with what it was given.
#[derive(Debug, thiserror::Error)]
pub enum BadStart {
    /// A setting does not exist or cannot take its value.
    #[error("{origin}: {source}")]
    Setting {
        /// Where the setting was given.
        origin: String,
        /// What is wrong.
        source: BadSetting,
    },
    /// The file of settings cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file of settings is no TOML.
    #[error("{}: {source}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<toml::de::Error>,
    },
    /// A value is well-formed but invalid.
    #[error("{key}: {what}")]
    Value {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        what: String,
    },
}
