//! A control lane over a stream: queues of three classes, frames out, frames in.
//!
//! ```text
//! queue ─► urgent     ─┐
//! queue ─► normal     ─┼─► at most 64 KiB and one frame, numbered ─► stream
//! queue ─► background ─┘
//! ```
//!
//! A frame gets its number when it leaves its queue, so that what is urgent can be sent before what
//! waited longer. An urgent frame waits for what was numbered before it and for what the kernel
//! has.

use std::collections::VecDeque;

use crate::error::Error;
use crate::frame::{
    self, Class, Decoder, FIRST_SEQUENCE, FrameInfo, HEADER_BYTES, Kind, MESSAGE_BYTES_MAX, Phase,
};
use crate::stream::{Stream, unless_blocked};
use crate::transport::{ControlLane, Incoming, NotQueued, Outgoing, QUEUE_BYTES_MAX};

/// Frames are numbered and given to the stream until they have so many bytes.
const BATCH_BYTES: usize = 64 << 10;

/// A control lane over a stream whose handshake is over.
#[derive(Debug)]
pub struct FramedControl<S> {
    stream: S,
    queues: [Queue; Class::ALL.len()],
    sequence: u64,
    /// Numbered frames, of which so many bytes are sent.
    batch: Vec<u8>,
    sent: usize,
    decoder: Decoder,
    received_bytes: u64,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<(Kind, Vec<u8>)>,
    bytes: usize,
}

impl<S: Stream> FramedControl<S> {
    /// The lane over this stream, both of whose sides have just ended their handshake.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            queues: Default::default(),
            sequence: FIRST_SEQUENCE,
            batch: Vec::new(),
            sent: 0,
            decoder: Decoder::new(Phase::Open, FIRST_SEQUENCE),
            received_bytes: 0,
        }
    }

    /// The stream, to wait for its events.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The next frames to be sent, the most urgent first.
    fn fill_batch(&mut self) {
        self.batch.clear();
        self.sent = 0;
        self.batch.shrink_to(BATCH_BYTES);
        for (class, queue) in Class::ALL.into_iter().zip(&mut self.queues) {
            while self.batch.len() < BATCH_BYTES {
                let Some((kind, payload)) = queue.frames.pop_front() else { break };
                queue.bytes -= HEADER_BYTES + payload.len();
                let info = FrameInfo { kind, class, sequence: self.sequence };
                frame::encode(info, &payload, &mut self.batch);
                self.sequence += 1;
            }
        }
    }
}

impl<S: Stream> ControlLane for FramedControl<S> {
    fn queue(&mut self, outgoing: Outgoing<'_>) -> Result<(), NotQueued> {
        let Outgoing { class, is_beat, payload } = outgoing;
        if payload.len() > MESSAGE_BYTES_MAX {
            return Err(NotQueued::Long { found: payload.len() });
        }
        let queue = &mut self.queues[class as usize];
        let bytes = queue.bytes + HEADER_BYTES + payload.len();
        if bytes > QUEUE_BYTES_MAX {
            return Err(NotQueued::Full { queued_bytes: queue.bytes });
        }
        queue.bytes = bytes;
        let kind = if is_beat { Kind::Beat } else { Kind::Message };
        queue.frames.push_back((kind, payload.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<bool, Error> {
        loop {
            if self.sent == self.batch.len() {
                self.fill_batch();
                if self.batch.is_empty() {
                    return Ok(true);
                }
            }
            match unless_blocked(self.stream.send(&self.batch[self.sent..], false))? {
                Some(count) => self.sent += count,
                None => return Ok(false),
            }
        }
    }

    fn receive(&mut self) -> Result<Option<Incoming>, Error> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                let FrameInfo { kind, class, .. } = frame.info;
                let is_beat = kind == Kind::Beat;
                return Ok(Some(Incoming { class, is_beat, payload: frame.payload }));
            }
            match unless_blocked(self.stream.recv(self.decoder.space()))? {
                Some(0) => return Err(Error::Closed { midway: self.decoder.has_part() }),
                Some(count) => {
                    self.decoder.filled(count);
                    self.received_bytes += count as u64;
                }
                None => return Ok(None),
            }
        }
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    fn close(&mut self) {
        self.stream.close();
    }
}
