//! Calls: one endpoint after the other until one answers, each with a time limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body, BodyReader};

use crate::error::Error;
use crate::tls::{Fault, Tls, TlsConnector};

/// Bytes of one answer: a listing of a thousand members, or a map of 1 MiB as base64, and room.
pub const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// How to reach etcd.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses as `host:port`, with `http://` or `etcd://` before it or not, in the order in
    /// which they are tried. With `https://` they are encrypted, all of them or none.
    pub endpoints: Vec<String>,
    /// What `https://` endpoints are reached with.
    pub tls: Option<Tls>,
    /// The user, where etcd asks for one.
    pub credentials: Option<Credentials>,
    /// How long one endpoint may take for one call.
    pub call_timeout: Duration,
    /// After so long without a change a watch ends, to be begun again.
    pub watch_timeout: Duration,
}

impl Options {
    /// How to reach etcd at these endpoints, with the defaults.
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            tls: None,
            credentials: None,
            call_timeout: Duration::from_secs(1),
            watch_timeout: Duration::from_secs(2),
        }
    }
}

/// A user of etcd.
#[derive(Clone)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A client of etcd, for one thread.
#[derive(Debug)]
pub struct Client {
    options: Options,
    /// The addresses as URLs.
    endpoints: Vec<String>,
    /// The endpoint that answered last.
    current: usize,
    agent: Agent,
    /// For watches, which may last.
    watch_agent: Agent,
    /// What shows that the user is authenticated; any endpoint takes it.
    token: Option<String>,
}

/// Why one endpoint did not do.
enum Trouble {
    /// Another one may do.
    Next(String),
    /// This one may do with a new connection.
    Again(String),
    /// It is not encrypted as it should be; another one may do.
    Encryption(String),
    /// The token is not accepted (any more).
    Token(String),
    /// No endpoint will do.
    Final(Error),
}

impl Client {
    /// A client; nothing is connected yet.
    pub fn new(options: Options) -> Result<Self, Error> {
        let endpoints = options.endpoints.iter().map(|endpoint| url(endpoint));
        let endpoints = endpoints.collect::<Result<Vec<String>, Error>>()?;
        if endpoints.is_empty() {
            return Err(Error::BadEndpoint {
                endpoint: String::new(),
                problem: "there is no address",
            });
        }
        let tls = tls_of(&options, &endpoints)?;
        let agent_of = |config| {
            let connector = ().chain(TcpConnector::default()).chain(TlsConnector::new(tls.clone()));
            Agent::with_parts(config, connector, DefaultResolver::default())
        };
        let config = || {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .proxy(None)
                .timeout_connect(Some(options.call_timeout))
        };
        let agent = agent_of(config().timeout_global(Some(options.call_timeout)).build());
        let watch_config = config()
            .timeout_recv_response(Some(options.call_timeout))
            .timeout_per_read(Some(options.watch_timeout));
        let watch_agent = agent_of(watch_config.build());
        Ok(Self { options, endpoints, current: 0, agent, watch_agent, token: None })
    }

    /// Whether what is said to etcd is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.endpoints.iter().all(|endpoint| is_encrypted(endpoint))
    }

    /// Makes any call of the gateway, such as `kv/range`, and gives its answer.
    pub fn call(&mut self, path: &str, question: &Value) -> Result<Value, Error> {
        self.with_endpoints(|client, endpoint| {
            let response = client.post(&client.agent, endpoint, path, question)?;
            answer_of(endpoint, response)
        })
    }

    /// Begins a call whose answer has no end.
    pub(crate) fn open(
        &mut self,
        path: &str,
        question: &Value,
    ) -> Result<(String, BodyReader<'static>), Error> {
        self.with_endpoints(|client, endpoint| {
            let response = client.post(&client.watch_agent, endpoint, path, question)?;
            if response.status().as_u16() == 200 {
                return Ok((endpoint.to_owned(), response.into_body().into_reader()));
            }
            match answer_of(endpoint, response) {
                Ok(_) => Err(Trouble::Next("it gave an answer that is no watch".to_owned())),
                Err(trouble) => Err(trouble),
            }
        })
    }

    /// Asks the endpoint that answered last, then the others. One that fails without having used
    /// up its time is asked twice: its connection may have been an old one.
    fn with_endpoints<T>(
        &mut self,
        ask: impl Fn(&Self, &str) -> Result<T, Trouble>,
    ) -> Result<T, Error> {
        let mut tried = Vec::new();
        let mut is_encryption = false;
        let mut is_authenticated_now = false;
        for turn in 0..self.endpoints.len() {
            let at = (self.current + turn) % self.endpoints.len();
            let endpoint = self.endpoints[at].clone();
            let mut is_again = false;
            loop {
                let done = match self.authenticate(&endpoint, &mut is_authenticated_now) {
                    Ok(()) => ask(self, &endpoint),
                    Err(trouble) => Err(trouble),
                };
                match done {
                    Ok(answer) => {
                        self.current = at;
                        return Ok(answer);
                    }
                    Err(Trouble::Token(message)) => {
                        self.token = None;
                        if is_authenticated_now || self.options.credentials.is_none() {
                            return Err(Error::Denied { message });
                        }
                    }
                    Err(Trouble::Again(_)) if !is_again => is_again = true,
                    Err(Trouble::Again(problem) | Trouble::Next(problem)) => {
                        tried.push(format!("{endpoint}: {problem}"));
                        break;
                    }
                    Err(Trouble::Encryption(problem)) => {
                        is_encryption = true;
                        tried.push(format!("{endpoint}: {problem}"));
                        break;
                    }
                    Err(Trouble::Final(error)) => return Err(error),
                }
            }
        }
        let tried = tried.join("; ");
        Err(if is_encryption { Error::Encryption { tried } } else { Error::Unavailable { tried } })
    }

    /// Gets a token, where there are credentials and no token yet.
    fn authenticate(&mut self, endpoint: &str, is_now: &mut bool) -> Result<(), Trouble> {
        let Some(Credentials { user, password }) = &self.options.credentials else {
            return Ok(());
        };
        if self.token.is_some() {
            return Ok(());
        }
        let question = json!({ "name": user, "password": password });
        let response = self.post(&self.agent, endpoint, "auth/authenticate", &question)?;
        match answer_of(endpoint, response) {
            Ok(answer) => {
                let token = answer["token"].as_str().unwrap_or_default().to_owned();
                (self.token, *is_now) = (Some(token), true);
                Ok(())
            }
            Err(Trouble::Final(Error::Refused { code: CODE_INVALID, message })) => {
                Err(Trouble::Final(Error::Denied { message }))
            }
            Err(trouble) => Err(trouble),
        }
    }

    fn post(
        &self,
        agent: &Agent,
        endpoint: &str,
        path: &str,
        question: &Value,
    ) -> Result<Response<Body>, Trouble> {
        let mut request = agent
            .post(format!("{endpoint}/v3/{path}"))
            .header("Content-Type", "application/json")
            // An endpoint without a leader ends its watches.
            .header("Grpc-Metadata-hasleader", "true");
        if let Some(token) = self.token.as_ref().filter(|token| !token.is_empty()) {
            request = request.header("Authorization", token);
        }
        request.send(question.to_string()).map_err(|error| trouble_of(endpoint, error))
    }

    pub(crate) fn bad_answer(&self, problem: &str) -> Error {
        let endpoint = self.endpoints[self.current].clone();
        Error::BadAnswer { endpoint, problem: problem.to_owned() }
    }
}

/// Codes of gRPC.
const CODE_INVALID: i64 = 3;
const CODE_DEADLINE: i64 = 4;
const CODE_NOT_FOUND: i64 = 5;
const CODE_DENIED: i64 = 7;
const CODE_OUT_OF_RANGE: i64 = 11;
const CODE_UNAVAILABLE: i64 = 14;
const CODE_UNAUTHENTICATED: i64 = 16;

/// The answer, or what is wrong with the endpoint.
fn answer_of(endpoint: &str, response: Response<Body>) -> Result<Value, Trouble> {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let bytes = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
    let bytes = bytes.map_err(|error| trouble_of(endpoint, error))?;
    let Ok(answer) = serde_json::from_slice::<Value>(&bytes) else {
        return Err(Trouble::Final(if status == 200 {
            let problem = "it is not JSON".to_owned();
            Error::BadAnswer { endpoint: endpoint.to_owned(), problem }
        } else {
            Error::NoGateway { endpoint: endpoint.to_owned(), status }
        }));
    };
    if status == 200 && answer["error"].is_null() {
        return Ok(answer);
    }
    // A call of one answer has the error at the top, a stream in an object.
    let error = if answer["error"].is_object() { &answer["error"] } else { &answer };
    let code = error["code"].as_i64().or(error["grpc_code"].as_i64()).unwrap_or(-1);
    let message = error["message"].as_str().or(answer["error"].as_str()).unwrap_or("no reason");
    let message = message.to_owned();
    Err(match code {
        CODE_DEADLINE | CODE_UNAVAILABLE => Trouble::Next(message),
        CODE_UNAUTHENTICATED => Trouble::Token(message),
        // The users were changed since the token was made.
        CODE_INVALID if message.contains("revision of auth store is old") => {
            Trouble::Token(message)
        }
        CODE_INVALID if message.contains("user name is empty") => {
            Trouble::Final(Error::Denied { message })
        }
        CODE_DENIED => Trouble::Final(Error::Denied { message }),
        CODE_OUT_OF_RANGE if message.contains("compacted") => {
            Trouble::Final(Error::Compacted { revision: 0 })
        }
        CODE_NOT_FOUND if message.contains("lease not found") => Trouble::Final(Error::NoLease),
        _ => Trouble::Final(Error::Refused { code, message }),
    })
}

fn trouble_of(endpoint: &str, error: ureq::Error) -> Trouble {
    let is_plain = !is_encrypted(endpoint);
    match error {
        ureq::Error::Timeout(_) => Trouble::Next(error.to_string()),
        ureq::Error::Io(error) if is_plain && error.kind() == io::ErrorKind::UnexpectedEof => {
            Trouble::Again(
                "it ended the connection without an answer, as an etcd that was started with \
                 --cert-file does; such a one is named by https://"
                    .to_owned(),
            )
        }
        ureq::Error::Other(inner) => match inner.downcast::<Fault>() {
            Ok(fault) => Trouble::Encryption(fault.to_string()),
            Err(other) => Trouble::Again(other.to_string()),
        },
        _ => Trouble::Again(error.to_string()),
    }
}

fn is_encrypted(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}

/// What these endpoints are encrypted with. An address that is in clear among others that are not,
/// or beside certificates, would be used as if it were encrypted, too.
fn tls_of(options: &Options, endpoints: &[String]) -> Result<Option<Arc<Tls>>, Error> {
    let bad = |endpoint: &String, problem| {
        Err(Error::BadEndpoint { endpoint: endpoint.clone(), problem })
    };
    let plain = endpoints.iter().find(|endpoint| !is_encrypted(endpoint));
    let secure = endpoints.iter().find(|endpoint| is_encrypted(endpoint));
    match (plain, secure, &options.tls) {
        (Some(plain), Some(_), _) => bad(plain, "others are https://, and this one is not"),
        (Some(plain), None, Some(_)) => {
            bad(plain, "there are certificates for etcd, and this address is not https://")
        }
        (_, Some(secure), None) => bad(
            secure,
            "it needs the certificate of the authority that signs those of etcd (pool_etcd_ca)",
        ),
        (_, _, tls) => Ok(tls.clone().map(Arc::new)),
    }
}

/// An address as a URL.
fn url(endpoint: &str) -> Result<String, Error> {
    let bad = |problem| Error::BadEndpoint { endpoint: endpoint.to_owned(), problem };
    let (scheme, host) = match endpoint.split_once("://") {
        None => ("http", endpoint),
        Some(("http" | "etcd", host)) => ("http", host),
        Some(("https", host)) => ("https", host),
        Some(_) => return Err(bad("it does not begin with https://, http:// or etcd://")),
    };
    let host = host.trim_end_matches('/');
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        return Err(bad("it does not end in a colon and a port, such as :2379"));
    }
    if host.contains(['/', '@', '?', '#', ' ']) {
        return Err(bad("it has more than a host and a port"));
    }
    Ok(format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports() {
        for (endpoint, expected) in [
            ("etcd://localhost:2379", "http://localhost:2379"),
            ("http://127.0.0.1:1/", "http://127.0.0.1:1"),
            ("[::1]:2379", "http://[::1]:2379"),
            ("https://etcd.example:2379/", "https://etcd.example:2379"),
        ] {
            assert_eq!(url(endpoint).as_deref(), Ok(expected));
        }
        for endpoint in ["", "a", "https://localhost", "ftp://a:1", "a:x", "u@a:1", "a:1/b:2"] {
            assert!(matches!(url(endpoint), Err(Error::BadEndpoint { .. })), "{endpoint}");
        }
        let none = Client::new(Options::new(Vec::new()));
        assert!(matches!(none, Err(Error::BadEndpoint { .. })));
    }

    #[test]
    fn endpoints_are_all_encrypted_or_none_is() {
        let file = || std::path::PathBuf::from("/ca.pem");
        let tls = || Some(Tls { authority: file(), own: None, revoked: None });
        let problem = |endpoints: &[&str], tls| {
            let endpoints = endpoints.iter().map(|it| (*it).to_owned()).collect();
            match Client::new(Options { tls, ..Options::new(endpoints) }) {
                Ok(client) => Ok(client.is_encrypted()),
                Err(Error::BadEndpoint { endpoint, problem }) => Err((endpoint, problem)),
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(problem(&["https://a.example:1", "https://b.example:1"], tls()), Ok(true));
        assert_eq!(problem(&["a.example:1", "b.example:1"], None), Ok(false));
        for (endpoints, tls, endpoint, words) in [
            (
                &["https://a.example:1", "b.example:1"][..],
                tls(),
                "http://b.example:1",
                "others are https://",
            ),
            (&["a.example:1"], tls(), "http://a.example:1", "this address is not https://"),
            (&["https://a.example:1"], None, "https://a.example:1", "pool_etcd_ca"),
        ] {
            let (found, problem) = problem(endpoints, tls).unwrap_err();
            assert!(found == endpoint && problem.contains(words), "{found}: {problem}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let credentials = Credentials { user: "u".to_owned(), password: "secret".to_owned() };
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
