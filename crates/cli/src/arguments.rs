//! The command line as data.

mod pool;
mod retention;
mod spark;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::pool::{
    EtcdCertificates, Pool, PoolAddress, PoolChild, PoolDev, PoolDrain, PoolInitCerts, PoolNode,
    PoolOrder, PoolVerify,
};
pub(crate) use self::retention::Retention;
pub(crate) use self::spark::{Shuffle, ShufflePool, Spark, SparkDoctor, SparkSubmit};
use crate::completion;

/// Shares Arrow data between processes: immutable objects in shared memory, read in place.
#[derive(Debug, Parser)]
#[command(name = "plasmon", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 no store, \
    4 object not there, 5 store full.")]
pub(crate) struct Arguments {
    /// The store's socket (default: this user's store; with `spark`, one for each application).
    #[arg(long, short, global = true, env = "PLASMON_SOCKET", value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON: one document, or one line per event.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start this user's store; it runs until `plasmon stop`.
    Start(Box<Start>),
    /// Stop the store. Its objects are deleted.
    Stop,
    /// Show metrics of the store's memory, objects and clients.
    Status,
    /// List the objects.
    #[command(alias = "list")]
    Ls(List),
    /// Describe one object.
    Stat {
        /// A name (`NAME` or `NAMESPACE:NAME`), an id or its first digits.
        #[arg(add = completion::objects())]
        object: String,
    },
    /// Put files into the store: Parquet, Arrow, CSV and JSON as tables, npy as arrays, any other
    /// file as bytes with `--format raw`.
    Put(Put),
    /// Build one table in the store from Parquet, Arrow, CSV or JSON files, batch by batch.
    Ingest(Ingest),
    /// Write an object to a file or to the standard output.
    Get(Get),
    /// Delete objects by name, or all that flags and patterns select.
    #[command(alias = "delete")]
    Rm(Remove),
    /// Sort files and tables in the store into one table, in a file or in the store.
    Sort(Sort),
    /// Follow the events of objects, one per line.
    Watch {
        /// Only objects named in this namespace.
        #[arg(long)]
        namespace: Option<String>,
        /// Only objects whose name starts with this.
        #[arg(long)]
        prefix: Option<String>,
        /// Stop after this many lines.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Show memory, objects and clients, live.
    Top {
        /// Seconds between two updates.
        #[arg(long, default_value_t = 1.0)]
        interval: f64,
        /// Stop after this many updates; 0 runs until interrupted.
        #[arg(long, default_value_t = 0)]
        count: u64,
    },
    /// Check this machine, the store and its pool, and suggest changes.
    Doctor(Doctor),
    /// Work with pools of stores on several machines.
    #[command(subcommand)]
    Pool(Pool),
    /// Keep the shuffle of Apache Spark 3.5 and 4.x in shared memory.
    #[command(subcommand)]
    Spark(Spark),
    /// Run the demo on a generated file, or on another file with --input.
    #[command(disable_help_flag = true)]
    RunDemo {
        /// Arguments of the demo; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, add = completion::demo())]
        arguments: Vec<String>,
    },
    /// Work with HDF5 files whose datasets are Arrow: run, inspect, export, import, doctor, view.
    #[command(disable_help_flag = true)]
    Hdf5 {
        /// Arguments of the tool; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, add = completion::hdf5())]
        arguments: Vec<String>,
    },
    /// Print where the library, headers and build files for C and C++ are.
    #[command(disable_help_flag = true)]
    Paths {
        /// --include, --lib, --pkg-config, --cmake or --daemon (default: all of them).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, add = completion::paths())]
        arguments: Vec<String>,
    },
    /// Print a shell script that completes commands, flags and names of objects.
    ///
    /// Add `source <(plasmon completions bash)` to ~/.bashrc, or the same with zsh to ~/.zshrc. For
    /// fish, run `plasmon completions fish > ~/.config/fish/completions/plasmon.fish`.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print a page of the manual, for example with `plasmon man get | man -l -`.
    Man(Manual),
}

/// The shells with a completion script.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    /// Bash.
    Bash,
    /// The Z shell.
    Zsh,
    /// Fish.
    Fish,
    /// Elvish.
    Elvish,
    /// PowerShell.
    Powershell,
}

impl Shell {
    /// Its name.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Elvish => "elvish",
            Self::Powershell => "powershell",
        }
    }
}

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Manual {
    /// The command to describe (default: plasmon itself).
    #[arg(conflicts_with = "out")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this folder, such as share/man/man1.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Arguments of `start`.
#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    /// The capacity of the store in bytes, such as 4g (default: half of the machine's memory).
    #[arg(long, short, value_name = "BYTES")]
    pub(crate) capacity: Option<String>,
    /// The folder for objects that do not fit in memory.
    #[arg(long, value_name = "DIR")]
    pub(crate) spill_dir: Option<PathBuf>,
    /// The folder of the log of durable objects, which are there again after a loss of power.
    #[arg(long, value_name = "DIR")]
    pub(crate) durable_dir: Option<PathBuf>,
    /// Another setting of the daemon, as key=value; see `plasmond --help`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    #[command(flatten)]
    pub(crate) node: PoolNode,
}

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// The pool to check, as for `start` (default: that of the running store).
    #[arg(long, env = "PLASMON_CLUSTER", value_name = "URL")]
    pub(crate) cluster: Option<String>,
    /// Where other nodes of the pool reach this one, as for `start`.
    #[arg(long, env = "PLASMON_POOL_LISTEN", value_name = "ADDR:PORT")]
    pub(crate) pool_listen: Option<String>,
    /// What etcd is reached with.
    #[command(flatten)]
    pub(crate) etcd: EtcdCertificates,
}

/// The objects that a command selects.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Only objects named in this namespace.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Only objects whose name, without its namespace, starts with this.
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Only objects of at least this age, such as 90s, 30m, 12h or 7d.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older: Option<Duration>,
    /// Only objects of at least this size, such as 100m.
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub(crate) larger: Option<u64>,
    /// Only objects without a name.
    #[arg(long, conflicts_with_all = ["namespace", "prefix"])]
    pub(crate) unnamed: bool,
}

/// An age, such as 30m.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is not an age such as 90s, 30m, 12h or 7d");
    let (number, seconds) = match text.char_indices().last().ok_or_else(wrong)? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3600.0),
        (at, 'd') => (&text[..at], 86400.0),
        _ => (text, 1.0),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// Arguments of `ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only objects whose name in the list starts with this, or matches a pattern such as '*-2026'.
    #[arg(value_name = "NAME", add = completion::objects())]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The order of the list.
    #[arg(long, value_enum, default_value_t = Order::Created)]
    pub(crate) sort: Order,
    /// Reverse the order.
    #[arg(long, short)]
    pub(crate) reverse: bool,
    /// Show whole ids, pins and policies.
    #[arg(long, short)]
    pub(crate) long: bool,
}

/// The orders of a listing.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Order {
    /// The oldest first.
    Created,
    /// The largest first.
    Size,
    /// By name.
    Name,
}

/// Arguments of `rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// Names, ids, the first digits of ids, or patterns such as 'tmp*'.
    #[arg(value_name = "OBJECT", conflicts_with = "all", add = completion::objects())]
    pub(crate) objects: Vec<String>,
    /// All objects.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Do not ask for confirmation when flags or patterns select the objects.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Arguments of `put`.
#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    /// The files.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The name of the object (default: the file's name without its extension).
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// The type of the file (default: from its extension).
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// The character between the columns of a CSV file (default: a comma, in .tsv files a tab).
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// Put the object into the pool of the store without a name. Other nodes get it by its id,
    /// which is printed. One node keeps it unless --copies says more.
    #[arg(long, conflicts_with_all = ["name", "namespace", "replace", "ttl"])]
    pub(crate) pool: bool,
    #[command(flatten)]
    pub(crate) kept: Retention,
}

/// Arguments of `sort`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("result").required(true).multiple(false))]
pub(crate) struct Sort {
    /// Parquet, Arrow, CSV and JSON files, and names or ids of tables in the store, sorted together
    /// as one table.
    #[arg(required = true, value_name = "IN", add = completion::files_and_objects())]
    pub(crate) inputs: Vec<String>,
    /// The columns to sort by, the most significant first, such as "city,-price"; a minus sorts
    /// descending.
    #[arg(long, value_name = "COLUMNS", allow_hyphen_values = true)]
    pub(crate) by: String,
    /// The file to write: Parquet, Arrow, CSV or JSON, by its extension.
    #[arg(long, short, value_name = "FILE", group = "result")]
    pub(crate) out: Option<PathBuf>,
    /// The name of the result in the store; several partitions are named NAME/0000 and so on.
    #[arg(long, group = "result")]
    pub(crate) name: Option<String>,
    /// Sort missing values first (default: last).
    #[arg(long)]
    pub(crate) nulls_first: bool,
    /// The number of partitions (default: as few as possible).
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<usize>,
    /// The number of threads (default: one per processor).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// The most memory to use, such as 4g (default: all that is free, or half of it with a scratch
    /// file). Tables that need more, or do not fit in the store, are sorted through a scratch
    /// file.
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub(crate) memory: Option<u64>,
    /// The folder of the scratch file (default: the folder of --out; with --name, $TMPDIR or
    /// /var/tmp).
    #[arg(long, value_name = "DIR")]
    pub(crate) spill_dir: Option<PathBuf>,
    /// The largest size of the scratch file, such as 40g (default: nearly all of the free space in
    /// its file system).
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub(crate) spill_max: Option<u64>,
}

/// A number of bytes, such as 512m.
fn byte_count(text: &str) -> Result<u64, String> {
    let found = plasmon_proto::settings::parse_bytes(text).filter(|bytes| *bytes > 0);
    found.ok_or_else(|| format!("\"{text}\" is not a number of bytes such as 512m or 4g"))
}

/// Arguments of `ingest`.
#[derive(Debug, clap::Args)]
pub(crate) struct Ingest {
    /// The files; all must have the same columns.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The name of the table.
    #[arg(long, short)]
    pub(crate) name: String,
    /// The type of the files (default: from their extensions).
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// The character between the columns of a CSV file (default: a comma, in .tsv files a tab).
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    #[command(flatten)]
    pub(crate) kept: Retention,
    /// How many seconds to wait for room while the store is full.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub(crate) timeout: f64,
}

/// Arguments of `get`.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// A name (`NAME` or `NAMESPACE:NAME`), an id or its first digits.
    #[arg(add = completion::objects())]
    pub(crate) object: String,
    /// The file to write (default: the standard output).
    #[arg(long, short)]
    pub(crate) output: Option<PathBuf>,
    /// The type of the output (default: from the file's extension, else the object's bytes).
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Wait until the object exists or --timeout has passed (default: do not wait).
    #[arg(long)]
    pub(crate) wait: bool,
    /// How many seconds to wait for the object at most.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A Parquet file.
    Parquet,
    /// A CSV file with a header line.
    Csv,
    /// A JSON file: an array of objects, one per row.
    Json,
    /// JSON lines: one object per line.
    Jsonl,
    /// An Arrow file, also called Feather.
    Arrow,
    /// An Arrow stream.
    Arrows,
    /// A NumPy array.
    Npy,
    /// Bytes, unchanged.
    Raw,
}

/// The delimiter of a CSV file: one character, or the word "tab".
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [one] if one.is_ascii() && !b"\"\r\n".contains(one) => Ok(*one),
        _ => Err(format!("\"{text}\" is not a delimiter: give one character, or tab")),
    }
}
