//! Why a call of etcd failed.

/// Why a call failed, by what the caller can do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No endpoint answered, or none could in time: try again later. A call that changes something
    /// may have been carried out all the same.
    #[error("etcd does not answer: {tried}")]
    Unavailable {
        /// Each endpoint and what was wrong with it.
        tried: String,
    },
    /// An endpoint answers, and the connection to it is not encrypted as it should be: change
    /// certificates or addresses. They are looked at again with each try.
    #[error("the connection to etcd is not encrypted as it should be: {tried}")]
    Encryption {
        /// Each endpoint and what was wrong with it.
        tried: String,
    },
    /// An endpoint has no gateway for JSON: change its settings, or use another endpoint.
    #[error(
        "{endpoint} answers, and not as etcd's JSON gateway does (status {status}); start etcd \
         3.4 or later without --enable-grpc-gateway=false"
    )]
    NoGateway {
        /// The endpoint.
        endpoint: String,
        /// The status of HTTP.
        status: u16,
    },
    /// User, password or permissions are wrong: change them.
    #[error("etcd refuses access: {message}")]
    Denied {
        /// What etcd says.
        message: String,
    },
    /// etcd has forgotten the revision that was asked for: list again, and watch from there.
    #[error("etcd has compacted the history before revision {revision}")]
    Compacted {
        /// The oldest revision that is left, 0 when etcd does not say.
        revision: i64,
    },
    /// The lease is gone: grant another one.
    #[error("etcd does not know the lease (any more)")]
    NoLease,
    /// etcd cannot carry the call out: report it.
    #[error("etcd refuses the call (code {code}): {message}")]
    Refused {
        /// The code of gRPC.
        code: i64,
        /// What etcd says.
        message: String,
    },
    /// The answer is not one of etcd's: report it.
    #[error("{endpoint} gave an answer that is not one of etcd: {problem}")]
    BadAnswer {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An address that cannot be used: change it.
    #[error("\"{endpoint}\" is not the address of an etcd: {problem}")]
    BadEndpoint {
        /// The address.
        endpoint: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}
