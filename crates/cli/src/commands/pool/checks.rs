//! What `plasmon doctor` looks at for a pool: its etcd, the pool daemon, the clock, where other
//! nodes would reach this one, and whether this one reaches them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use plasmon_etcd::{Client, Error, Options};
use plasmon_membership::{Keys, Snapshot, snapshot};
use plasmon_proto::ClusterAddress;
use serde_json::{Value, json};

use super::clock::clock_check;
use super::encryption::encryption_checks;
use super::fabric::fabric_check;
use super::ports;
use super::program::program;
use super::secure_etcd::tls_of;
use super::status::unreached_text;
use crate::arguments::EtcdCertificates;
use crate::commands::check::{Check, Verdict, check};

/// Without an answer for so long a host counts as not reachable, as for the pool daemon.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// A round trip longer than this makes changes of the pool slow.
const ROUND_TRIP_WANTED: Duration = Duration::from_millis(100);

/// The first version of etcd that is supported.
const ETCD_WANTED: (u32, u32) = (3, 4);

/// What a member of etcd says of itself.
struct Member {
    version: String,
    cluster: String,
    has_leader: bool,
    alarms: Vec<String>,
    round_trip: Duration,
}

/// All checks of the pool at this address, for a node that others reach at `listen`.
pub(crate) fn checks(
    cluster: &str,
    listen: Option<&str>,
    certificates: &EtcdCertificates,
) -> Vec<Check> {
    let address = match cluster.parse::<ClusterAddress>() {
        Ok(address) => address,
        Err(bad) => return vec![check("pool", Verdict::Bad, bad.to_string())],
    };
    let tls = match tls_of(&address, certificates) {
        Ok(tls) => tls,
        Err(bad) => return vec![check("etcd", Verdict::Bad, bad)],
    };
    let options = |endpoint: &str| Options {
        call_timeout: CALL_TIMEOUT,
        tls: tls.clone(),
        ..Options::new(vec![endpoint.to_owned()])
    };
    let endpoints = address.endpoints();
    let asked: Vec<(&String, Result<Member, Error>)> =
        endpoints.iter().map(|endpoint| (endpoint, ask(options(endpoint)))).collect();
    let is_any = asked.iter().any(|(_, member)| member.is_ok());
    let mut checks: Vec<Check> =
        asked.iter().map(|(host, member)| etcd_check(host, member, is_any)).collect();
    let mut clusters: Vec<&str> =
        asked.iter().filter_map(|(_, it)| Some(it.as_ref().ok()?.cluster.as_str())).collect();
    clusters.dedup();
    if clusters.len() > 1 {
        let found = "these hosts are members of different clusters of etcd";
        checks.push(
            check("etcd", Verdict::Bad, found).advise("name the members of one cluster only"),
        );
    }
    let hosts = asked.iter().filter(|(_, member)| member.is_ok()).map(|(host, _)| host.as_str());
    if let Some(found) = hosts.take(1).find_map(|host| look(options(host), &address.name)) {
        checks.push(reach_check(&found));
        checks.extend(encryption_checks(&found.nodes(), address.is_encrypted));
        checks.extend(fabric_check(&found.nodes()));
        checks.extend(found.map.as_deref().map(ports::checks).unwrap_or_default());
    }
    checks.push(clock_check());
    checks.push(program_check());
    checks.extend(listen_check(&address.hosts, listen));
    checks
}

fn ask(options: Options) -> Result<Member, Error> {
    let mut client = Client::new(options)?;
    // The first call makes the connection, and is not part of the round trip.
    client.call("maintenance/status", &json!({}))?;
    let start = Instant::now();
    let answer = client.call("maintenance/status", &json!({}))?;
    let round_trip = start.elapsed();
    Ok(member_of(&answer, round_trip))
}

fn member_of(answer: &Value, round_trip: Duration) -> Member {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let alarms = answer["errors"].as_array().map(|all| all.iter().map(text).collect());
    Member {
        version: text(&answer["version"]),
        cluster: text(&answer["header"]["cluster_id"]),
        // Fields that have their default are left out.
        has_leader: !matches!(answer["leader"].as_str(), None | Some("0" | "")),
        alarms: alarms.unwrap_or_default(),
        round_trip,
    }
}

fn etcd_check(host: &str, member: &Result<Member, Error>, is_any: bool) -> Check {
    let member = match member {
        Ok(member) => member,
        Err(error) => {
            // One member of several may be away.
            let verdict = if is_any { Verdict::Note } else { Verdict::Bad };
            let advice = match error {
                Error::Encryption { .. } => {
                    "look at the certificate of etcd (--cert-file) and at --pool-etcd-ca, \
                     --pool-etcd-cert and --pool-etcd-key"
                }
                _ => {
                    "start it, or name the host and port that its clients use (etcd's \
                     --advertise-client-urls)"
                }
            };
            return check("etcd", verdict, error.to_string()).advise(advice);
        }
    };
    let Member { version, has_leader, alarms, round_trip, .. } = member;
    let ms = round_trip.as_secs_f64() * 1e3;
    let found = format!("{host}: version {version}, round trip {ms:.1} ms");
    let bad = |found: String, advice: &str| check("etcd", Verdict::Bad, found).advise(advice);
    if !is_supported(version) {
        let (major, minor) = ETCD_WANTED;
        return bad(found, &format!("etcd {major}.{minor} or later is needed"));
    }
    if !has_leader {
        let advice = "most of its members must run and reach each other";
        return bad(format!("{found}, without a leader"), advice);
    }
    if !alarms.is_empty() {
        let advice = "`etcdctl alarm list` and `etcdctl endpoint status` say more";
        return bad(format!("{found}; {}", alarms.join("; ")), advice);
    }
    let verdict = if *round_trip > ROUND_TRIP_WANTED { Verdict::Note } else { Verdict::Good };
    check("etcd", verdict, found).advise("put etcd into the network of the nodes")
}

/// The pool as this etcd has it; `None` where there is none yet.
fn look(options: Options, name: &str) -> Option<Snapshot> {
    let found = snapshot(&mut Client::new(options).ok()?, &Keys::new(name).ok()?).ok()?;
    found.map.is_some().then_some(found)
}

/// Whether all nodes of the pool reach each other, as they report.
fn reach_check(found: &Snapshot) -> Check {
    let pairs = found.status().unreached;
    if pairs.is_empty() {
        return check("pool network", Verdict::Good, "all nodes reach each other".to_owned());
    }
    check("pool network", Verdict::Bad, unreached_text(&pairs)).advise(
        "look at the network between them; `plasmon pool nodes` shows which do not take part \
         meanwhile",
    )
}

fn is_supported(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    numbers.next().flatten().zip(numbers.next().flatten()).is_some_and(|found| found >= ETCD_WANTED)
}

fn program_check() -> Check {
    match program() {
        Ok(program) => check("pool daemon", Verdict::Good, program.display().to_string()),
        Err(error) => check("pool daemon", Verdict::Bad, error.to_string()),
    }
}

/// Where other nodes would reach this one: by default the address from which it reaches etcd.
fn listen_check(hosts: &[String], listen: Option<&str>) -> Option<Check> {
    let address = match listen {
        Some(listen) => match listen.parse::<SocketAddr>() {
            Ok(address) => address.ip(),
            Err(_) => {
                let found = format!("\"{listen}\" is not ADDR:PORT, such as 10.0.0.7:7411");
                return Some(check("pool address", Verdict::Bad, found));
            }
        },
        None => hosts.iter().find_map(|host| own_address(host))?,
    };
    let verdict = if address.is_loopback() { Verdict::Note } else { Verdict::Good };
    let found = if address.is_loopback() {
        format!("{address}, which only this machine reaches")
    } else {
        match listen {
            Some(listen) => listen.to_owned(),
            None => format!("{address}, unless --pool-listen names another"),
        }
    };
    Some(check("pool address", verdict, found).advise(
        "for a pool of several machines, name etcd by an address that all of them reach, or choose \
         one with --pool-listen",
    ))
}

/// The address from which this machine would send to a host. Nothing is sent.
fn own_address(host: &str) -> Option<IpAddr> {
    let to: Vec<SocketAddr> = host.to_socket_addrs().ok()?.collect();
    to.into_iter().find_map(|to| {
        let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(answer: &Value) -> Value {
        let member = member_of(answer, Duration::from_micros(1500));
        serde_json::to_value(etcd_check("h:1", &Ok(member), true)).unwrap()
    }

    #[test]
    fn a_member_is_good_with_a_leader_and_without_alarms() {
        let good = json!({ "version": "3.4.23", "leader": "1", "header": { "cluster_id": "7" } });
        let found = told(&good);
        assert_eq!(found["verdict"], "good");
        assert_eq!(found["found"], "h:1: version 3.4.23, round trip 1.5 ms");
        for (field, value, word) in [
            ("version", json!("3.3.9"), "3.3.9"),
            ("version", json!(""), "version"),
            ("leader", json!("0"), "leader"),
            ("leader", Value::Null, "leader"),
            ("errors", json!(["memberID:1 alarm:NOSPACE"]), "NOSPACE"),
        ] {
            let mut answer = good.clone();
            answer[field] = value;
            let found = told(&answer);
            assert_eq!(found["verdict"], "bad", "{found}");
            assert!(found["found"].as_str().unwrap().contains(word), "{found}");
            assert!(!found["advice"].as_str().unwrap().is_empty());
        }
        assert!(is_supported("3.4.0") && is_supported("10.0.1") && !is_supported("2.9"));
    }

    #[test]
    fn one_member_of_several_may_be_away() {
        for (is_any, verdict) in [(true, "note"), (false, "bad")] {
            let away = Err(Error::Unavailable { tried: "h:1: refused".to_owned() });
            let found = serde_json::to_value(etcd_check("h:1", &away, is_any)).unwrap();
            assert_eq!(found["verdict"], verdict);
        }
    }

    #[test]
    fn an_address_that_only_this_machine_reaches_is_noted() {
        let hosts = ["127.0.0.1:1".to_owned()];
        for (listen, verdict, found) in [
            (None, "note", "127.0.0.1, "),
            (Some("[::1]:7411"), "note", "::1, "),
            (Some("10.0.0.7:7411"), "good", "10.0.0.7:7411"),
            (Some("10.0.0.7"), "bad", "\"10.0.0.7\""),
        ] {
            let told = serde_json::to_value(listen_check(&hosts, listen).unwrap()).unwrap();
            assert_eq!(told["verdict"], verdict, "{told}");
            assert!(told["found"].as_str().unwrap().starts_with(found), "{told}");
        }
    }
}
