//! The settings of a store that belongs to a pool. What they mean to the pool is the business of
//! the pool daemon; here they are only checked, so that a mistake is an error of the start.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plasmon_proto::ClusterAddress;
use plasmon_proto::etcd_files::{CertificateFiles, EtcdFiles, EtcdSettings};
use plasmon_proto::fabric::{BadChoice, Choice};
use plasmon_proto::limits::{
    MOVERS_MAX, NODE_NAME_BYTES_MAX, NODE_WEIGHT_MAX, SUSPECT_MS_MAX, SUSPECT_MS_MIN,
    TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, ZONE_BYTES_MAX,
};
use plasmon_proto::settings::Settings;

use super::bad_start::BadStart;
use super::files;
use super::tls::{Given, Tls};

/// Bytes of the file of a secret, of which white space at the end is no part of the secret.
const TOKEN_FILE_BYTES_MAX: u64 = 2 * TOKEN_BYTES_MAX;

/// The pool that a store belongs to, and this node's part in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its etcd and its name there.
    pub cluster: ClusterAddress,
    /// The name of this node.
    pub node_name: String,
    /// Where other nodes reach this one, unless the pool daemon chooses.
    pub listen: Option<SocketAddr>,
    /// The file of the secret, unless it is in etcd.
    pub token_file: Option<PathBuf>,
    /// What its lanes are encrypted with.
    pub tls: Option<Tls>,
    /// The files that are set for etcd; the pool daemon has those of the lanes beside them.
    pub etcd: CertificateFiles,
    /// The folder of this node, unless it is the user's.
    pub folder: Option<PathBuf>,
    /// What fails together with this node, empty for nothing.
    pub zone: String,
    /// Its share, unless it is the default.
    pub weight: Option<u32>,
    /// How many threads move bytes, unless the pool daemon chooses.
    pub movers: Option<u32>,
    /// How long it hears nothing of a node before it reports it, unless it is the default.
    pub suspect_ms: Option<u32>,
    /// By which providers other nodes write into its memory.
    pub fabric: Choice,
}

impl Pool {
    /// Checks the settings; `None` for a store that belongs to no pool.
    pub(super) fn of(settings: &Settings) -> Result<Option<Self>, BadStart> {
        if settings.cluster.is_empty() {
            return check_no_pool(settings).map(|()| None);
        }
        let cluster = settings.cluster.parse::<ClusterAddress>();
        let cluster = cluster.map_err(|bad| wrong("cluster", bad.to_string()))?;
        let etcd = etcd(settings)?;
        check_etcd(settings, &cluster, &etcd)?;
        Ok(Some(Self {
            cluster,
            etcd,
            node_name: node_name(&settings.node_name)?,
            listen: listen(&settings.pool_listen)?,
            token_file: path("pool_token_file", &settings.pool_token_file)?,
            tls: tls(settings)?,
            folder: path("pool_folder", &settings.pool_folder)?,
            zone: zone(&settings.pool_zone)?,
            weight: weight(settings.pool_weight)?,
            movers: movers(settings.pool_movers)?,
            suspect_ms: suspect_ms(settings.pool_suspect_ms)?,
            fabric: fabric(&settings.pool_fabric)?,
        }))
    }

    /// Checks the files of the secret and of certificates, which the pool daemon reads when it
    /// starts. A daemon that takes a store over does not check them: its objects are worth more.
    pub(crate) fn check_files(&self) -> Result<(), BadStart> {
        self.tls.as_ref().map_or(Ok(()), Tls::check)?;
        let CertificateFiles { authority, certificate, key } = &self.etcd;
        files::check(&[
            ("pool_etcd_ca", authority.as_deref()),
            ("pool_etcd_cert", certificate.as_deref()),
            ("pool_etcd_key", key.as_deref()),
        ])?;
        let Some(file) = &self.token_file else { return Ok(()) };
        check_token(file).map_err(|problem| files::wrong("pool_token_file", file, &problem))
    }
}

fn wrong(key: &'static str, what: String) -> BadStart {
    BadStart::Value { key, what }
}

/// Without a pool no other setting of one has a meaning.
fn check_no_pool(settings: &Settings) -> Result<(), BadStart> {
    let default = Settings::default();
    let given = [
        ("node_name", !settings.node_name.is_empty()),
        ("pool_listen", !settings.pool_listen.is_empty()),
        ("pool_token_file", !settings.pool_token_file.is_empty()),
        ("pool_tls_cert", !settings.pool_tls_cert.is_empty()),
        ("pool_tls_key", !settings.pool_tls_key.is_empty()),
        ("pool_tls_ca", !settings.pool_tls_ca.is_empty()),
        ("pool_tls_crl", !settings.pool_tls_crl.is_empty()),
        ("pool_etcd_ca", !settings.pool_etcd_ca.is_empty()),
        ("pool_etcd_cert", !settings.pool_etcd_cert.is_empty()),
        ("pool_etcd_key", !settings.pool_etcd_key.is_empty()),
        ("pool_encrypt_data", settings.pool_encrypt_data),
        ("pool_folder", !settings.pool_folder.is_empty()),
        ("pool_zone", !settings.pool_zone.is_empty()),
        ("pool_weight", settings.pool_weight != default.pool_weight),
        ("pool_movers", settings.pool_movers != default.pool_movers),
        ("pool_suspect_ms", settings.pool_suspect_ms != default.pool_suspect_ms),
        ("pool_fabric", settings.pool_fabric != default.pool_fabric),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(wrong(key, "a store has it in a pool: set cluster as well".into())),
        None => Ok(()),
    }
}

fn node_name(text: &str) -> Result<String, BadStart> {
    let machine = rustix::system::uname();
    let name = match text {
        "" => machine.nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    };
    // It is the name of a folder as well.
    let is_file_name = !name.contains('/') && !matches!(name.as_str(), "" | "." | "..");
    if !is_file_name || name.len() > NODE_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let most = NODE_NAME_BYTES_MAX;
        let what = format!("\"{name}\" is not a name of at most {most} bytes without a \"/\"");
        return Err(wrong("node_name", what));
    }
    Ok(name)
}

fn listen(text: &str) -> Result<Option<SocketAddr>, BadStart> {
    if text.is_empty() {
        return Ok(None);
    }
    let problem = match text.parse::<SocketAddr>() {
        Ok(address) if !address.ip().is_unspecified() => return Ok(Some(address)),
        Ok(_) => "is no address that other nodes can connect to; name one of this machine",
        Err(_) => "is not ADDR:PORT, such as 10.0.0.7:0 or [fd00::7]:7411",
    };
    Err(wrong("pool_listen", format!("\"{text}\" {problem}")))
}

fn path(key: &'static str, text: &str) -> Result<Option<PathBuf>, BadStart> {
    if text.is_empty() {
        return Ok(None);
    }
    std::path::absolute(text).map(Some).map_err(|error| wrong(key, error.to_string()))
}

fn lanes(settings: &Settings) -> Result<Given, BadStart> {
    Ok(Given {
        certificate: path("pool_tls_cert", &settings.pool_tls_cert)?,
        key: path("pool_tls_key", &settings.pool_tls_key)?,
        authority: path("pool_tls_ca", &settings.pool_tls_ca)?,
        revoked: path("pool_tls_crl", &settings.pool_tls_crl)?,
    })
}

fn tls(settings: &Settings) -> Result<Option<Tls>, BadStart> {
    Tls::of(lanes(settings)?, settings.pool_encrypt_data)
}

fn etcd(settings: &Settings) -> Result<CertificateFiles, BadStart> {
    Ok(CertificateFiles {
        authority: path("pool_etcd_ca", &settings.pool_etcd_ca)?,
        certificate: path("pool_etcd_cert", &settings.pool_etcd_cert)?,
        key: path("pool_etcd_key", &settings.pool_etcd_key)?,
    })
}

/// Whether etcd can be reached with these files as its address says.
fn check_etcd(
    settings: &Settings,
    cluster: &ClusterAddress,
    etcd: &CertificateFiles,
) -> Result<(), BadStart> {
    let Given { certificate, key, authority, revoked } = lanes(settings)?;
    let pool = CertificateFiles { authority, certificate, key };
    let given = EtcdSettings { etcd: etcd.clone(), pool, revoked };
    let found = EtcdFiles::of(cluster.is_encrypted, given);
    found.map(drop).map_err(|bad| wrong(bad.setting, bad.why.to_owned()))
}

fn zone(text: &str) -> Result<String, BadStart> {
    if text.len() > ZONE_BYTES_MAX || text.chars().any(char::is_control) {
        let what = format!("\"{text}\" is not a name of at most {ZONE_BYTES_MAX} bytes");
        return Err(wrong("pool_zone", what));
    }
    Ok(text.to_owned())
}

fn weight(weight: u32) -> Result<Option<u32>, BadStart> {
    if weight > NODE_WEIGHT_MAX {
        return Err(wrong("pool_weight", format!("{weight} is more than {NODE_WEIGHT_MAX}")));
    }
    Ok(Some(weight).filter(|weight| *weight != Settings::default().pool_weight))
}

fn movers(movers: u32) -> Result<Option<u32>, BadStart> {
    if movers > MOVERS_MAX {
        return Err(wrong("pool_movers", format!("{movers} is more than {MOVERS_MAX}")));
    }
    Ok(Some(movers).filter(|movers| *movers > 0))
}

fn suspect_ms(ms: u32) -> Result<Option<u32>, BadStart> {
    if ms > 0 && !(SUSPECT_MS_MIN..=SUSPECT_MS_MAX).contains(&ms) {
        let what = format!("{ms} is neither 0 nor {SUSPECT_MS_MIN} to {SUSPECT_MS_MAX}");
        return Err(wrong("pool_suspect_ms", what));
    }
    Ok(Some(ms).filter(|ms| *ms != Settings::default().pool_suspect_ms))
}

fn fabric(text: &str) -> Result<Choice, BadStart> {
    text.parse().map_err(|bad: BadChoice| wrong("pool_fabric", bad.to_string()))
}

/// Checks the file of a secret; what is wrong with it.
fn check_token(file: &Path) -> Result<(), String> {
    let found = files::look(file, true)?;
    if found.len() > TOKEN_FILE_BYTES_MAX {
        return Err(secret_sizes(found.len()));
    }
    let content = fs::read(file).map_err(|error| files::unreadable(&error))?;
    let bytes = content.trim_ascii_end().len() as u64;
    let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&bytes);
    if fits { Ok(()) } else { Err(secret_sizes(bytes)) }
}

fn secret_sizes(found: u64) -> String {
    format!("has a secret of {found} bytes; {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} are allowed")
}
