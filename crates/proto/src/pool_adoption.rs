//! What a store and its pool daemon say about namespaces of the pool that programs adopt.
//!
//! A namespace is adopted by a session of one store, in the whole pool; etcd knows which. The store
//! says that a client wants one ([`AdoptionCall::Adopt`]) and that the session of one has ended
//! ([`AdoptionCall::Orphaned`]). The pool daemon says what etcd knows
//! ([`AdoptionTold::Namespace`]); of a namespace that has ended each store refuses further objects
//! and has the pool delete what is there ([`AdoptionCall::Progress`] says how far it is).
//!
//! A namespace may be limited in bytes. Each store says what it has of one that is
//! ([`AdoptionCall::Usage`]), and is told what all other nodes have ([`AdoptionTold::Quota`]).
//!
//! These messages have strings, so they are not among [`crate::pool::Call`] and
//! [`crate::pool::Told`], which are copied freely.

use serde::{Deserialize, Serialize};

/// What the store tells the pool daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptionCall {
    /// A client adopts a namespace.
    Adopt {
        /// Comes back in the answer.
        number: u64,
        /// The namespace, with its `@`.
        namespace: String,
        /// The session of the client: the same for all daemons of the store.
        session: u64,
    },
    /// The session that had adopted a namespace has ended: so does the adoption.
    Orphaned {
        /// The namespace.
        namespace: String,
        /// The session that is gone.
        session: u64,
    },
    /// How far the store is with what it was told.
    Progress {
        /// It goes by what was known in this revision.
        seen: u64,
        /// Nothing is here of any namespace that had ended in this revision.
        swept: u64,
    },
    /// A client adopts a namespace and limits it, or changes its limit.
    AdoptWithin {
        /// Comes back in the answer.
        number: u64,
        /// The namespace, with its `@`.
        namespace: String,
        /// The session of the client.
        session: u64,
        /// How many bytes all nodes together may have in it, more than 0.
        bytes_max: u64,
    },
    /// What is here of a namespace that is limited, by the last
    /// [`AdoptionTold::Quota`].
    Usage {
        /// The namespace.
        namespace: String,
        /// Bytes of all copies that count, in memory and in the spill tier.
        bytes: u64,
    },
}

impl AdoptionCall {
    /// A client adopts a namespace; with a limit in bytes, unless that is 0.
    pub fn adopt(number: u64, namespace: String, session: u64, bytes_max: u64) -> Self {
        match bytes_max {
            0 => Self::Adopt { number, namespace, session },
            _ => Self::AdoptWithin { number, namespace, session, bytes_max },
        }
    }
}

/// What the pool daemon tells the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptionTold {
    /// What a namespace is now.
    Namespace {
        /// The namespace, with its `@`.
        namespace: String,
        /// Its state.
        state: NamespaceState,
    },
    /// Everything up to this revision of etcd was told.
    Revision(u64),
    /// The answer to [`AdoptionCall::Adopt`]. What the namespace is then was told before.
    Answer {
        /// As in the call.
        number: u64,
        /// Why it is not adopted.
        result: Result<(), AdoptionRefusal>,
    },
    /// A namespace that is adopted is limited. Its limit holds until a [`Self::Namespace`] about
    /// it.
    Quota {
        /// The namespace.
        namespace: String,
        /// How many bytes all nodes together may have in it.
        bytes_max: u64,
        /// How many bytes all other nodes have in it, as they last said.
        elsewhere_bytes: u64,
    },
}

/// What a namespace of the pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceState {
    /// No program has adopted it.
    Free,
    /// A session of this store has adopted it.
    AdoptedHere(u64),
    /// A session of another store has.
    AdoptedElsewhere,
    /// The session that had adopted it has ended: what is in it is deleted, and nothing comes in.
    Ended,
}

/// Why a namespace is not adopted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptionRefusal {
    /// Another program has adopted it.
    Exists,
    /// It has ended before, and the node of this name has not deleted yet what it has of it.
    NotSwept(String),
    /// As many namespaces as there may be are adopted.
    LimitReached(u64),
    /// etcd or a node did not answer in time. Whether it is adopted is not known.
    Unreachable,
}

impl AdoptionTold {
    /// How long the namespace is that it names.
    pub fn namespace_bytes(&self) -> usize {
        match self {
            Self::Namespace { namespace, .. } | Self::Quota { namespace, .. } => namespace.len(),
            Self::Revision(_) | Self::Answer { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::limits::{ADOPTIONS_TOLD_MAX, FRAME_BYTES_MAX, NAMESPACE_BYTES_MAX};
    use crate::message::{Push, Request};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn namespace() -> String {
        "@n".to_owned()
    }

    #[test]
    fn messages_come_back_and_their_bytes_are_a_format() {
        let calls = [
            (
                AdoptionCall::Adopt { number: 8, namespace: namespace(), session: 300 },
                "000802406eac02",
            ),
            (AdoptionCall::adopt(8, namespace(), 300, 0), "000802406eac02"),
            (AdoptionCall::Orphaned { namespace: namespace(), session: 300 }, "0102406eac02"),
            (AdoptionCall::Progress { seen: 300, swept: 4 }, "02ac0204"),
            (AdoptionCall::adopt(8, namespace(), 300, 5), "030802406eac0205"),
            (AdoptionCall::Usage { namespace: namespace(), bytes: 300 }, "0402406eac02"),
        ];
        for (call, golden) in calls {
            let bytes = postcard::to_allocvec(&call).unwrap();
            assert_eq!(hex(&bytes), golden, "{call:?}");
            assert_eq!(postcard::from_bytes(&bytes), Ok(call.clone()));
            let push = Push::Adoption(call);
            let bytes = postcard::to_allocvec(&push).unwrap();
            assert_eq!(bytes[0], 4, "after all others");
            assert_eq!(postcard::from_bytes(&bytes), Ok(push));
        }
        let is = |state| AdoptionTold::Namespace { namespace: namespace(), state };
        let answer = |result| AdoptionTold::Answer { number: 8, result };
        let (bytes_max, elsewhere_bytes) = (300, 4);
        let quota = AdoptionTold::Quota { namespace: namespace(), bytes_max, elsewhere_bytes };
        let told = [
            (is(NamespaceState::Free), "0002406e00"),
            (is(NamespaceState::AdoptedHere(300)), "0002406e01ac02"),
            (is(NamespaceState::AdoptedElsewhere), "0002406e02"),
            (is(NamespaceState::Ended), "0002406e03"),
            (AdoptionTold::Revision(300), "01ac02"),
            (answer(Ok(())), "020800"),
            (answer(Err(AdoptionRefusal::Exists)), "02080100"),
            (answer(Err(AdoptionRefusal::NotSwept("b".to_owned()))), "020801010162"),
            (answer(Err(AdoptionRefusal::LimitReached(300))), "02080102ac02"),
            (answer(Err(AdoptionRefusal::Unreachable)), "02080103"),
            (quota, "0302406eac0204"),
        ];
        for (told, golden) in told {
            let bytes = postcard::to_allocvec(&told).unwrap();
            assert_eq!(hex(&bytes), golden, "{told:?}");
            assert_eq!(postcard::from_bytes(&bytes), Ok(told));
        }
    }

    #[test]
    fn requests_keep_their_limits_and_the_largest_fits_a_frame() {
        let is = |bytes: usize| AdoptionTold::Namespace {
            namespace: "x".repeat(bytes),
            state: NamespaceState::AdoptedHere(u64::MAX),
        };
        let quota = |bytes: usize| AdoptionTold::Quota {
            namespace: "x".repeat(bytes),
            bytes_max: u64::MAX,
            elsewhere_bytes: u64::MAX,
        };
        let tell = |told| Request::TellAdoptions { told };
        for one in [is(NAMESPACE_BYTES_MAX), quota(NAMESPACE_BYTES_MAX)] {
            let most = tell(vec![one; ADOPTIONS_TOLD_MAX]);
            assert_eq!(most.check(), Ok(()));
            let framed = frame::encode_request(u64::MAX, &most).unwrap();
            assert!(framed.len() <= FRAME_BYTES_MAX);
            assert_eq!(frame::decode_request(&framed), Ok((u64::MAX, most)));
        }
        assert!(tell(vec![is(NAMESPACE_BYTES_MAX + 1)]).check().is_err());
        assert!(tell(vec![quota(NAMESPACE_BYTES_MAX + 1)]).check().is_err());
        assert!(tell(vec![is(0); ADOPTIONS_TOLD_MAX + 1]).check().is_err());
    }
}
