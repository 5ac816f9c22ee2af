//! How far a node is with taking part in its pool, as its pool daemon says it
//! ([`crate::pool_admin`]).
//!
//! A store serves before its node is in the pool: the node gets its lease, is named by the next
//! map, and is connected with the others, and each of these has its time.

use serde::{Deserialize, Serialize};

use crate::pool::Slot;

/// How far a node is with taking part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participation {
    /// The number of the map that the node goes by; 0 before it has one.
    pub epoch: u64,
    /// Its slot, once that map names this start of it and the node knows every copy that it has.
    pub slot: Option<Slot>,
    /// Whether it holds its lease.
    pub is_leased: bool,
    /// The live nodes of that map, itself included.
    pub live: u32,
    /// Those of them that it is not connected with.
    pub unreached: Vec<Slot>,
    /// Why the pool does not let it in.
    pub refused: Option<String>,
}

impl Participation {
    /// Whether it decides and serves in the pool.
    pub fn has_joined(&self) -> bool {
        self.slot.is_some() && self.is_leased
    }

    /// Whether it has joined, and is connected with every other live node.
    pub fn reaches_all(&self) -> bool {
        self.has_joined() && self.unreached.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::pool_admin::{LIST_WITHOUT_MAX, Reply, Request};

    #[test]
    fn a_node_reaches_all_when_it_has_joined_and_is_connected() {
        let joined = Participation {
            epoch: 2,
            slot: Some(Slot(0)),
            is_leased: true,
            live: 3,
            ..Participation::default()
        };
        assert!(joined.has_joined() && joined.reaches_all());
        let alone = Participation { unreached: vec![Slot(1)], ..joined.clone() };
        assert!(alone.has_joined() && !alone.reaches_all());
        for missing in [
            Participation { slot: None, ..joined.clone() },
            Participation { is_leased: false, ..joined },
            Participation::default(),
        ] {
            assert!(!missing.has_joined() && !missing.reaches_all(), "{missing:?}");
        }
    }

    #[test]
    fn the_question_and_its_answer_are_a_format() {
        let hex =
            |bytes: &[u8]| bytes[16..].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let bytes = frame::encode_admin_request(1, &Request::Participation).unwrap();
        assert_eq!(hex(&bytes), "0b");
        assert_eq!(frame::decode_admin_request(&bytes), Ok((1, Request::Participation)));
        let joined = Participation {
            epoch: 300,
            slot: Some(Slot(2)),
            is_leased: true,
            live: 3,
            unreached: vec![Slot(1)],
            refused: None,
        };
        let refused = Participation { refused: Some("no".to_owned()), ..Participation::default() };
        for (answer, golden) in
            [(joined, "0aac02010201030101 00"), (refused, "0a000000000001026e6f")]
        {
            let reply = Reply::Participation(Box::new(answer));
            let bytes = frame::encode_admin_reply(1, &reply).unwrap();
            assert_eq!(hex(&bytes), golden.replace(' ', ""));
            assert_eq!(frame::decode_admin_reply(&bytes), Ok((1, reply)));
        }
    }

    #[test]
    fn the_largest_answer_fits_a_frame() {
        let largest = Participation {
            epoch: u64::MAX,
            slot: Some(Slot(u16::MAX)),
            is_leased: true,
            live: u32::MAX,
            unreached: vec![Slot(u16::MAX); LIST_WITHOUT_MAX],
            refused: Some("x".repeat(1000)),
        };
        let reply = Reply::Participation(Box::new(largest));
        assert!(frame::encode_admin_reply(u64::MAX, &reply).is_ok());
    }
}
