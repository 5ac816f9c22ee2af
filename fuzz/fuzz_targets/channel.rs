//! A client's channel: whatever the client writes into it at whatever moment, the daemon copies
//! records out, counts pins and reads touches within their limits, or says that the client is
//! hostile. Afterwards a restarted daemon can take the channel over in any case.

#![no_main]

use std::os::fd::AsFd;

use libfuzzer_sys::fuzz_target;
use plasmon_fuzz::{Input, poke};
use plasmon_proto::Code;
use plasmon_proto::ObjectId;
use plasmon_proto::limits::{PINS_PER_CLIENT_MAX, SUBMISSIONS, TOUCHES};
use plasmon_proto::object::ObjectState;
use plasmon_proto::ring::{Completion, Submission};
use plasmon_shm::ChannelDaemon;
use plasmon_shm::channel::CHANNEL_BYTES;
use plasmon_shm::scan::PinCounts;
use rustix::fs::SealFlags;
use rustix::io::Errno;

/// Offsets of the words that a client writes: docs/formats/shared-memory.md.
const CURSORS: [u64; 6] = [64, 192, 320, 448, 512, 576];
const SUBMISSIONS_AT: u64 = 4096;
const TOUCHES_AT: u64 = SUBMISSIONS_AT + 262_144 + 16_384;
const LEDGER_AT: u64 = TOUCHES_AT + 4096;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut channel = ChannelDaemon::create().expect("there is memory for a channel");
    let memfd = channel.memfd().duplicate().expect("there are descriptors");
    let file = memfd.as_fd();
    let mut hostile = false;
    while !input.is_empty() && !hostile {
        match input.below(11) {
            0 => poke(file, CURSORS[input.below(CURSORS.len())], input.word()),
            1 => {
                let at =
                    channel.position().wrapping_add(input.below(8) as u64) % SUBMISSIONS as u64;
                for word in 0..8 {
                    poke(file, SUBMISSIONS_AT + at * 64 + word * 8, input.word());
                }
            }
            2 => {
                poke(file, LEDGER_AT + input.word() % PINS_PER_CLIENT_MAX as u64 * 8, input.word())
            }
            3 => poke(file, TOUCHES_AT + input.below(256) as u64 * 4, input.word()),
            4 => hostile = drain(&mut channel, input.below(256)),
            5 => {
                channel.advance();
                channel.wake().expect("a futex in mapped memory can be woken");
            }
            6 => complete(&mut channel, input.word()),
            7 => touches(&mut channel),
            8 => poke(file, input.word() % (CHANNEL_BYTES / 8) * 8, input.word()),
            9 => {
                // A bit that the kernel does not know as a seal is refused before it looks further.
                let seals = SealFlags::from_bits_retain(u32::from(input.byte()));
                let sealed = rustix::fs::fcntl_add_seals(file, seals);
                assert!(
                    matches!(sealed, Err(Errno::PERM | Errno::INVAL)),
                    "a client adds no seals: {seals:?} {sealed:?}",
                );
            }
            _ => pins(&channel, input.word()),
        }
    }
    // A restarted daemon takes the channel over, whatever is in it.
    let adopted = plasmon_shm::Memfd::adopt(memfd).expect("it has its seals");
    let mut channel = ChannelDaemon::adopt(adopted).expect("its client cannot prevent that");
    drain(&mut channel, usize::MAX);
    touches(&mut channel);
});

/// Whether the client turned out to be hostile.
fn drain(channel: &mut ChannelDaemon, max: usize) -> bool {
    let (mut records, from) = (Vec::new(), channel.position());
    let Ok(count) = channel.drain(max, &mut records) else { return true };
    assert!(count <= max.min(SUBMISSIONS) && count == records.len());
    for (index, (position, record)) in records.iter().enumerate() {
        assert_eq!(*position, from.wrapping_add(index as u64));
        if let Ok(submission) = Submission::decode(record) {
            assert_eq!(Submission::decode(&submission.encode()), Ok(submission));
        }
    }
    false
}

fn complete(channel: &mut ChannelDaemon, position: u64) {
    let id = ObjectId::new([7; 20]);
    let code = ObjectState::Deleted.code().unwrap_or(Code::Absent);
    channel.complete(&Completion::Refused { position, code, id });
}

fn touches(channel: &mut ChannelDaemon) {
    let mut touched = Vec::new();
    channel.touches(&mut touched);
    assert!(touched.len() <= TOUCHES);
    touched.clear();
    channel.touches(&mut touched);
    assert!(touched.is_empty(), "each touch is told once");
}

fn pins(channel: &ChannelDaemon, serial: u64) {
    let serials = [serial.min(u64::MAX - 1), serial.saturating_add(1)];
    let mut counts = PinCounts::new(&serials);
    let looked_at = channel.scan_pins(&mut counts);
    let all = channel.pins_count();
    assert!(counts.of(&serials).iter().sum::<u32>() as usize <= all && all <= looked_at);
    assert!(looked_at <= PINS_PER_CLIENT_MAX);
}
