//! What every transport promises, as tests that are generic over it.
//!
//! A transport has a [`Fixture`], and runs all of this by [`conformance`]. Random content follows
//! from a seed, which is printed; `SEED=n` repeats it.

pub(crate) mod bulk;
pub(crate) mod control;
pub(crate) mod greeting;
pub(crate) mod hostile;
pub(crate) mod notes;

use std::fmt::Debug;
use std::sync::Arc;

use plasmon_net::handshake::{
    Cluster, Encryption, KnownPeers, Local, NodeIdentity, ProtocolRange, Token,
};
use plasmon_net::{FramedBulk, FramedControl, Stream};
use plasmon_testkit::Random;

/// What the tests need of a transport whose connections are streams.
pub(crate) trait Fixture {
    /// A connection.
    type Stream: Stream + Debug;

    /// Both sides of a new connection.
    fn streams(&mut self) -> (Self::Stream, Self::Stream);

    /// Lets time pass, or the kernel run, when nothing could be done. Panics when that has happened
    /// for too long.
    fn wait(&mut self);

    /// Both sides of a new control lane.
    fn control(&mut self) -> (FramedControl<Self::Stream>, FramedControl<Self::Stream>) {
        let (one, two) = self.streams();
        (FramedControl::new(one), FramedControl::new(two))
    }

    /// Both sides of a new bulk lane.
    fn bulk(&mut self) -> (FramedBulk<Self::Stream>, FramedBulk<Self::Stream>) {
        let (one, two) = self.streams();
        (FramedBulk::new(one), FramedBulk::new(two))
    }
}

/// The random numbers of a test; prints their seed.
pub(crate) fn random() -> Random {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    Random::new(seed)
}

/// A node of the pool of all tests.
pub(crate) fn local(node: u8, change: impl FnOnce(&mut Local)) -> Arc<Local> {
    let identity = NodeIdentity { uuid: [node; 16], slot: node.into(), boot: 1, incarnation: 1 };
    let mut local = Local {
        cluster: Cluster::new("prod", [9; 16]).unwrap(),
        node: identity,
        protocols: ProtocolRange::new(1, 3).unwrap(),
        token: Token::new(b"the token of a pool").unwrap(),
        encryption: Encryption::Nothing,
        peers: KnownPeers::default(),
    };
    change(&mut local);
    Arc::new(local)
}

/// Runs all tests with the fixture that this expression makes.
macro_rules! conformance {
    ($name:ident, $fixture:expr) => {
        mod $name {
            use super::*;

            conformance!(@tests $fixture, control: messages_arrive_in_order_of_their_class
                messages_keep_their_limit queues_keep_their_limit urgent_messages_overtake
                a_peer_that_does_not_read_blocks_its_sender both_directions_at_once
                what_was_sent_before_a_close_arrives many_lanes_at_once);
            conformance!(@tests $fixture, bulk: segments_land_in_their_memory
                segments_keep_their_limit a_large_transfer_is_the_same_on_both_sides
                transfers_of_both_directions_do_not_mix memory_that_is_not_ready_stops_the_lane
                segments_of_stopped_transfers_are_passed_over damaged_content_is_reported
                a_close_midway_is_seen a_file_that_is_too_short_ends_the_lane
                a_file_without_pages_is_sent_from_memory);
            conformance!(@tests $fixture, notes: notes_arrive_in_their_place_between_segments
                a_peer_that_does_not_read_its_notes_loses_its_lane a_bad_note_ends_the_lane
                a_close_within_a_note_is_seen);
            conformance!(@tests $fixture, greeting: both_sides_learn_each_other
                refusals_reach_the_peer a_handshake_has_a_deadline
                connections_without_a_proof_are_limited);
            conformance!(@tests $fixture, hostile: garbage_ends_a_control_lane_and_no_other
                garbage_ends_a_bulk_lane_and_no_other segments_that_fit_nowhere_end_the_lane
                garbage_ends_a_handshake a_frame_that_is_damaged_on_the_way_ends_the_lane);
        }
    };
    (@tests $fixture:expr, $module:ident: $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                crate::conformance::$module::$test(&mut $fixture);
            }
        )*
    };
}
pub(crate) use conformance;
