//! Every setting of the daemon, declared once.
//!
//! The table makes the typed [`Settings`], the keys of the TOML file, the environment variables
//! (`PLASMON_` and the key in capitals), the flags (`--` and the key with dashes) and the reference
//! page `docs/settings.md`. Later sources win: defaults, file, environment, flags.

use std::fmt;

/// How a setting's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A path or another text.
    Text,
    /// A number of bytes; `k`, `m`, `g` and `t` multiply by powers of 1024.
    Bytes,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
    /// Strings separated by commas.
    List,
}

/// The declaration of one setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key, with its unit last.
    pub key: &'static str,
    /// How its value is written.
    pub kind: Kind,
    /// The default, as it would be written.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// A value that a setting cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// There is no such key.
    #[error("there is no setting \"{key}\"")]
    Unknown {
        /// The key given.
        key: String,
    },
    /// The value does not parse.
    #[error("\"{value}\" is not a valid value for \"{key}\", which takes {wanted}")]
    Value {
        /// The key given.
        key: &'static str,
        /// The value given.
        value: String,
        /// What it takes.
        wanted: &'static str,
    },
}

/// Parses the text of one kind of value.
trait Parse: Sized {
    const KIND: Kind;
    const WANTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
}

impl Parse for String {
    const KIND: Kind = Kind::Text;
    const WANTED: &'static str = "a string";
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Parse for u32 {
    const KIND: Kind = Kind::Number;
    const WANTED: &'static str = "a whole number";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Parse for bool {
    const KIND: Kind = Kind::Switch;
    const WANTED: &'static str = "true or false";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Parse for Bytes {
    const KIND: Kind = Kind::Bytes;
    const WANTED: &'static str = "bytes, such as 1048576, 512m or 4g";
    fn parse(text: &str) -> Option<Self> {
        parse_bytes(text).map(Self)
    }
}

impl Parse for Vec<String> {
    const KIND: Kind = Kind::List;
    const WANTED: &'static str = "strings separated by commas";
    fn parse(text: &str) -> Option<Self> {
        Some(text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect())
    }
}

/// Reads a number of bytes with an optional suffix `k`, `m`, `g` or `t` (and `b` or `ib` after it).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let shift = match suffix.trim().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $key:ident: $kind:ty = $default:literal;)+) => {
        /// The settings of a daemon, with their defaults.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $key: $kind,)+
        }

        /// Every setting, in the order of the reference page.
        pub const SETTINGS: &[Setting] = &[
            $(Setting {
                key: stringify!($key),
                kind: <$kind as Parse>::KIND,
                default: $default,
                doc: concat!($($doc, "\n"),+),
            },)+
        ];

        impl Default for Settings {
            fn default() -> Self {
                Self { $($key: <$kind as Parse>::parse($default).expect("a default parses"),)+ }
            }
        }

        impl Settings {
            /// Sets one setting from its text.
            pub fn set(&mut self, key: &str, value: &str) -> Result<(), BadSetting> {
                match key {
                    $(stringify!($key) => {
                        self.$key = <$kind as Parse>::parse(value).ok_or(BadSetting::Value {
                            key: stringify!($key),
                            value: value.to_owned(),
                            wanted: <$kind as Parse>::WANTED,
                        })?;
                        Ok(())
                    })+
                    _ => Err(BadSetting::Unknown { key: key.to_owned() }),
                }
            }
        }
    };
}

settings! {
    /// The socket that clients connect to. Empty: `plasmon/store.sock` in the user's runtime
    /// directory (`XDG_RUNTIME_DIR`, or a directory of this user under the temporary one).
    socket: String = "";
    /// The mode of the socket, in octal.
    socket_mode: String = "0600";
    /// How many bytes of objects the store holds. 0: half of the machine's memory, or of what the
    /// daemon's control group allows where that is less.
    capacity_bytes: Bytes = "0";
    /// Whether the capacity counts the bytes of data and metadata alone, to the byte. What objects
    /// take beyond that comes on top, up to as much again.
    count_content: bool = "false";
    /// The folder for objects that do not fit into memory: on a disk, never in memory such as a
    /// tmpfs. `auto`: in `/var/tmp`, else in `$XDG_STATE_HOME/plasmon`. Empty: objects are not
    /// spilled.
    spill_dir: String = "";
    /// How many bytes may be spilled. 0: as many as the file system holds.
    spill_bytes_max: Bytes = "0";
    /// Whether objects that may be evicted are spilled instead, where there is a `spill_dir`.
    spill_cache: bool = "false";
    /// The folder of the log of durable objects, on a disk or on persistent memory. They are
    /// written there before they are seen, and are there again after a loss of power. One store at
    /// a time has it. Empty: no object is durable.
    durable_dir: String = "";
    /// How many bytes the log may take of its folder. 0: as many as the file system has.
    durable_bytes_max: Bytes = "0";
    /// How the log writes: `file`, `dax` (a folder on persistent memory that is mapped with
    /// `MAP_SYNC`), or `auto`: `dax` where the folder can do that.
    durable_device: String = "auto";
    /// Bytes of a segment of the log, which are allocated together: 1 MiB to 1 GiB.
    durable_segment_bytes: Bytes = "64m";
    /// For how long at most puts of durable objects that arrive while others are being written are
    /// gathered before they are confirmed together, in milliseconds. A put that is alone does not
    /// wait.
    durable_batch_ms: u32 = "2";
    /// How many bytes are gathered at most.
    durable_batch_bytes: Bytes = "8m";
    /// Whether the disk's cache survives a loss of power, so that it need not be flushed.
    durable_plp: bool = "false";
    /// How many bytes of the log are read in a second to find damage before an object is needed,
    /// mostly while nothing else is to be done. 0: none.
    durable_scrub_bytes_per_second: Bytes = "1m";
    /// Users besides the owner that may connect, as `uid:rw` or `uid:ro`. With any, the level is at
    /// least `leased`.
    admit: Vec<String> = "";
    /// How sealed objects are protected: `shared`, `leased` or `strict`. Empty: `shared`, and
    /// `leased` as soon as another user is admitted.
    level: String = "";
    /// Whether the daemon ends after its last client disconnects.
    end_with_last_client: bool = "false";
    /// How long it then waits for a new client, and at its start for the first one, in
    /// milliseconds.
    linger_ms: u32 = "2000";
    /// The process that the store was started for, as `pid:ticks` with its id and its start time
    /// as in `/proc/PID/stat`. Once it has ended, the daemon ends after its last client.
    /// `plasmon.start()` sets this.
    starter: String = "";
    /// Whether the socket's folder was made for this store. A daemon that ends removes its log and
    /// lock there, and then the folder if nothing else is in it. `plasmon.start()` sets this.
    own_folder: bool = "false";
    /// The pool that this store belongs to, as `etcd://HOST:PORT`: the etcd that its nodes meet in,
    /// with further hosts after commas, an IPv6 address in brackets. `/NAME` at the end names the
    /// pool in that etcd: 1 to 64 letters, digits, `.`, `_` and `-`; without it, it is `default`.
    /// An etcd with TLS is `https://HOST:PORT`, and takes an authority (`pool_etcd_ca`). Empty: the
    /// store belongs to no pool.
    cluster: String = "";
    /// The name of this node in its pool, without a `/`. Empty: the name of the machine.
    node_name: String = "";
    /// The address and port, as `ADDR:PORT`, where the other nodes of the pool reach this one. Port
    /// 0: a free one. Empty: the address from which this machine reaches etcd, and a free port.
    pool_listen: String = "";
    /// A file with the secret that all nodes of the pool share: 16 to 1024 bytes, without the line
    /// break at the end, readable by its owner alone. Empty: a secret that the first node leaves in
    /// etcd.
    pool_token_file: String = "";
    /// The certificate of this node, in PEM, made by `plasmon pool init-certs`. With it, and the
    /// key and the authority, messages between the nodes are encrypted, and only nodes with a
    /// certificate of the authority are talked to. When the files change they are read again.
    /// Empty: nothing is encrypted.
    pool_tls_cert: String = "";
    /// The key of the certificate of this node, in PEM, readable by its owner alone.
    pool_tls_key: String = "";
    /// The certificate of the authority that signs those of the pool's nodes, in PEM. While one
    /// takes the place of another the file has both.
    pool_tls_ca: String = "";
    /// The list of certificates that are not valid any more, in PEM (`X509 CRL`). Empty: none is
    /// revoked.
    pool_tls_crl: String = "";
    /// The certificate of the authority that signs those of an etcd with TLS, `https://` in
    /// `cluster`, in PEM. Every connection to etcd reads it, and the two below, again. Empty: that
    /// of the pool (`pool_tls_ca`).
    pool_etcd_ca: String = "";
    /// The certificate that an etcd with `--client-cert-auth` is shown, in PEM. Empty: that of this
    /// node (`pool_tls_cert`), unless etcd has an authority of its own.
    pool_etcd_cert: String = "";
    /// The key of the certificate for etcd, in PEM, readable by its owner alone.
    pool_etcd_key: String = "";
    /// Whether the content of objects is encrypted on its way between nodes, too, and not messages
    /// alone. It takes certificates. Content between two nodes is encrypted where one of them says
    /// so.
    pool_encrypt_data: bool = "false";
    /// The folder in which this node keeps its identity. Empty: `plasmon/pool/NAME/NODE` in
    /// `$XDG_STATE_HOME` or `~/.local/state`.
    pool_folder: String = "";
    /// What fails together with this node, such as a rack; copies go to several zones. Empty: none.
    pool_zone: String = "";
    /// The share of the pool's objects that this node holds, beside the weights of the others. 0:
    /// it holds nothing but caches.
    pool_weight: u32 = "100";
    /// How many threads move bytes between this node and others, 64 at most. 0: as many as
    /// processors, 4 at most.
    pool_movers: u32 = "0";
    /// How long this node hears nothing of another one of the pool before it reports it to the
    /// node that leads, in milliseconds, 1000 to 60000. Of nodes that do not reach each other one
    /// stops to take part until they do. 0: it reports none, and is not stopped.
    pool_suspect_ms: u32 = "3000";
    /// By which providers of libfabric other nodes of the pool write into the memory of this one:
    /// `off`, `auto`, which is `verbs;efa`, or some of `verbs`, `efa`, `net` and `shm` in the order
    /// in which they are tried, separated by semicolons. Of those that reach other machines the
    /// first one that passes its test is used, `shm` between nodes of one machine, and TCP for
    /// everything else. With `pool_encrypt_data` none is used: what is written is not encrypted.
    pool_fabric: String = "off";
    /// Whether a keeper process holds the memory, so that sealed objects outlive the daemon.
    keeper: bool = "true";
    /// How long the daemon may leave its keeper without an answer before it is killed and
    /// restarted, in milliseconds, at least 1000. 0: never. A daemon that a debugger has stopped
    /// is not killed.
    hang_timeout_ms: u32 = "10000";
    /// How many bytes of free memory stay warm at most. 0: a quarter of the capacity.
    warm_bytes_max: Bytes = "0";
    /// How many bytes a background thread faults in ahead of the first writers.
    prefault_bytes: Bytes = "0";
    /// Whether idle free memory is collapsed into huge pages in the background.
    collapse: bool = "false";
    /// The most bytes of objects and leases that one process may own, over all of its connections,
    /// also earlier ones; all processes of an admitted other user count as one. Objects that
    /// outlive a restart of the daemon are not charged to any process. 0: no limit.
    client_quota_bytes: Bytes = "0";
    /// The most connections of one user, at least 1. Where other users are admitted, half of all
    /// 4096 connections are divided among the users, so that each of them can connect.
    connections_per_user_max: u32 = "4096";
    /// The most connections of one process, at least 1. A process whose id the daemon cannot
    /// see, because it is in another pid namespace, is limited only with its user.
    connections_per_process_max: u32 = "1024";
    /// How long the daemon polls its rings after work before it sleeps, in microseconds.
    spin_us: u32 = "20";
    /// How much the daemon logs to its standard error: `error`, `warn`, `info`, `debug`, `trace`.
    log: String = "warn";
}

/// The values that a setting takes, in words.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => String::WANTED,
            Self::Bytes => Bytes::WANTED,
            Self::Number => u32::WANTED,
            Self::Switch => bool::WANTED,
            Self::List => Vec::<String>::WANTED,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SETTINGS_MAX;

    #[test]
    fn defaults_parse_and_are_few() {
        let mut settings = Settings::default();
        assert!(SETTINGS.len() <= SETTINGS_MAX);
        for setting in SETTINGS {
            assert_eq!(settings.set(setting.key, setting.default), Ok(()));
            assert!(!setting.doc.trim().is_empty());
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        let mut settings = Settings::default();
        assert_eq!(
            settings.set("capacity", "1"),
            Err(BadSetting::Unknown { key: "capacity".to_owned() })
        );
        for (key, value) in
            [("capacity_bytes", "many"), ("keeper", "yes"), ("spin_us", "-1"), ("linger_ms", "")]
        {
            assert!(matches!(settings.set(key, value), Err(BadSetting::Value { .. })), "{key}");
        }
    }

    #[test]
    fn bytes_are_read_with_their_suffixes() {
        for (text, bytes) in [("0", 0), ("10000", 10_000), ("4k", 4096), ("2 GiB", 2 << 30)] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "k", "1x", "-1", "99999999999999999999", "18446744073709551615k"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
