//! The arguments of `plasmon spark`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Subcommand, ValueEnum};
use plasmon_proto::Name;
use plasmon_proto::limits::COPIES_MAX;

/// The namespace of a shuffle on the pool whose prefix was not named.
const PREFIX: &str = "@spark";

/// The commands of `spark`.
#[derive(Debug, Subcommand)]
pub(crate) enum Spark {
    /// Print the path of the jar that Spark needs.
    Jar,
    /// Print the settings that Spark needs, as lines of a spark-defaults.conf.
    Conf(Shuffle),
    /// Run spark-submit with these settings; `plasmon --socket PATH spark submit` names the store.
    #[command(disable_help_flag = true)]
    Submit(SparkSubmit),
    /// Check the Java, Spark, jar, store and pool that `submit` would use.
    Doctor(SparkDoctor),
}

/// Arguments of `spark submit`.
#[derive(Debug, clap::Args)]
pub(crate) struct SparkSubmit {
    #[command(flatten)]
    pub(crate) shuffle: Shuffle,
    /// Arguments of spark-submit.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// Arguments of `spark doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct SparkDoctor {
    #[command(flatten)]
    pub(crate) shuffle: Shuffle,
    /// The master, as for `submit` (default: that of Spark's settings, else local[*]).
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// A setting, as for `submit`.
    #[arg(long, short, value_name = "KEY=VALUE")]
    pub(crate) conf: Vec<String>,
    /// A file of settings, as for `submit`.
    #[arg(long, value_name = "FILE")]
    pub(crate) properties_file: Option<PathBuf>,
}

/// Where an application's map outputs are kept. What is not given is left to Spark's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Pool")]
pub(crate) struct Shuffle {
    /// Keep map outputs in the pool of the driver's store: in a namespace @PREFIX-.. (without a
    /// value @spark), on a cluster that has one (auto), or never (none).
    #[arg(
        long,
        value_name = "auto|none|@PREFIX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = PREFIX
    )]
    pub(crate) pool: Option<ShufflePool>,
    /// How many nodes of the pool keep each map output; 0: two where it has two or more.
    #[arg(long, value_name = "N", value_parser = copies())]
    pub(crate) copies: Option<u8>,
    /// Whether a map task waits until the other nodes have its output.
    #[arg(long, value_enum)]
    pub(crate) ack: Option<ShuffleAck>,
}

fn copies() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=i64::from(COPIES_MAX))
}

/// Whether a shuffle is on the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ShufflePool {
    /// On a cluster, where the driver's store belongs to one.
    #[default]
    Auto,
    /// On one machine.
    None,
    /// On the pool, in namespaces that begin so.
    Prefix(String),
}

impl ShufflePool {
    /// What the namespaces on the pool begin with.
    pub(crate) fn prefix(&self) -> &str {
        match self {
            Self::Prefix(prefix) => prefix,
            Self::Auto | Self::None => PREFIX,
        }
    }
}

impl FromStr for ShufflePool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let is_named = text.len() > 1 && text.starts_with('@');
        if !is_named {
            return Err(format!("\"{text}\" is not auto, none or @PREFIX, such as {PREFIX}"));
        }
        // An application adds 16 hexadecimal digits to it.
        match Name::new(format!("{text}-{:016x}", 0), "x") {
            Ok(_) => Ok(Self::Prefix(text.to_owned())),
            Err(bad) => Err(format!("\"{text}\" cannot begin a namespace: {bad}")),
        }
    }
}

impl fmt::Display for ShufflePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Prefix(prefix) => prefix,
        })
    }
}

/// Whether a map task waits for the copies of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShuffleAck {
    /// It does.
    Sync,
    /// It does not; they are made meanwhile.
    Async,
}

impl ShuffleAck {
    /// Its name in Spark's settings.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Async => "async",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_a_prefix_or_a_word() {
        for word in ["auto", "none", "@spark", "@team-a"] {
            assert_eq!(word.parse::<ShufflePool>().map(|pool| pool.to_string()), Ok(word.into()));
        }
        assert_eq!(ShufflePool::Auto.prefix(), "@spark");
        let longest = format!("@{}", "n".repeat(64 - 1 - 17));
        assert!(longest.parse::<ShufflePool>().is_ok());
        let long = format!("{longest}n");
        for word in ["", "@", "spark", "Auto", "@a:b", "@a\n", &long] {
            let refused = word.parse::<ShufflePool>().expect_err(word);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
