//! Calls: one endpoint after the other until one answers, each with a time limit.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body, BodyReader};

use crate::error::Error;

/// Bytes of one answer: a listing of a thousand members, or a map of 1 MiB as base64, and room.
pub const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// How to reach etcd.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses as `host:port`, with `http://` or `etcd://` before it or not, in the order in
    /// which they are tried.
    pub endpoints: Vec<String>,
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
        let config = || {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .proxy(None)
                .timeout_connect(Some(options.call_timeout))
        };
        let agent = config().timeout_global(Some(options.call_timeout)).build().new_agent();
        let watch_agent = config()
            .timeout_recv_response(Some(options.call_timeout))
            .timeout_per_read(Some(options.watch_timeout))
            .build()
            .new_agent();
        Ok(Self { options, endpoints, current: 0, agent, watch_agent, token: None })
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
                    Err(Trouble::Final(error)) => return Err(error),
                }
            }
        }
        Err(Error::Unavailable { tried: tried.join("; ") })
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
        request.send(question.to_string()).map_err(trouble_of)
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
    let bytes = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(trouble_of)?;
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

fn trouble_of(error: ureq::Error) -> Trouble {
    match error {
        ureq::Error::Timeout(_) => Trouble::Next(error.to_string()),
        _ => Trouble::Again(error.to_string()),
    }
}

/// An address as a URL.
fn url(endpoint: &str) -> Result<String, Error> {
    let bad = |problem| Error::BadEndpoint { endpoint: endpoint.to_owned(), problem };
    let host = match endpoint.split_once("://") {
        None | Some(("http" | "etcd", _)) => endpoint.rsplit("://").next().unwrap_or(endpoint),
        Some(("https", _)) => return Err(bad("TLS is not supported yet")),
        Some(_) => return Err(bad("it does not begin with http:// or etcd://")),
    };
    let host = host.trim_end_matches('/');
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        return Err(bad("it does not end in a colon and a port, such as :2379"));
    }
    if host.contains(['/', '@', '?', '#', ' ']) {
        return Err(bad("it has more than a host and a port"));
    }
    Ok(format!("http://{host}"))
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
        ] {
            assert_eq!(url(endpoint).as_deref(), Ok(expected));
        }
        for endpoint in ["", "a", "https://localhost:1", "ftp://a:1", "a:x", "u@a:1", "a:1/b:2"] {
            assert!(matches!(url(endpoint), Err(Error::BadEndpoint { .. })), "{endpoint}");
        }
        let none = Client::new(Options::new(Vec::new()));
        assert!(matches!(none, Err(Error::BadEndpoint { .. })));
    }

    #[test]
    fn passwords_are_not_shown() {
        let credentials = Credentials { user: "u".to_owned(), password: "secret".to_owned() };
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
