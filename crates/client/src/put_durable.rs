//! Puts of many durable objects: the log takes them with one sync for many.
//!
//! ```text
//! leased: (copy ─► put) for each ─► answers
//! small:  create, create, ... ─► answers ─► copy, copy, ... ─► seal, seal, ... ─► answers
//! large:  (create ─► answer ─► copy ─► seal) for each ─► answers
//! ```
//!
//! Leased are those that one request puts ([`crate::put_small`]). The memory of large ones is asked
//! for one after the other, when what was sealed before may have left it already.

use plasmon_proto::message::{PendingObject, Reply, Request};
use plasmon_proto::object::Level;
use plasmon_proto::{Code, ObjectId};

use crate::created::{ObjectMemory, abandon, begin_seal, end_seal, write_created};
use crate::error::{Error, Result};
use crate::mapping::{keep_writers_out, map_created};
use crate::options::PutOptions;
use crate::payload::{Payload, Plan};
use crate::process::Process;
use crate::put::PUTTING;
use crate::put_small::SmallPut;
use crate::session::Session;

/// Seals that are on their way at once, with the memory of their objects.
const SEALS_AT_ONCE: usize = 64;

/// Bytes of objects whose memory is asked for together, and which part of a store they may be.
const TOGETHER_BYTES_MAX: u64 = 4 << 20;
const TOGETHER_PART: u64 = 16;

/// An object to put: the id that was chosen for it, if one was, and its bytes.
type Many<'a> = (Option<ObjectId>, &'a [u8]);

/// An object that has memory, its id so far and the one that it is to be sealed as.
type Made = (ObjectId, ObjectId);

/// An object whose memory was asked for.
struct Creation<'a> {
    object: &'a Many<'a>,
    plan: Plan,
    made: Made,
    number: u64,
}

impl Process {
    /// Puts objects of which none is acknowledged before the log has it. After the first error no
    /// more are begun.
    pub(crate) fn put_many_durable(
        &self,
        session: &Session,
        objects: &[Many<'_>],
        options: &PutOptions,
    ) -> Result<Vec<ObjectId>> {
        let mut ids = Vec::with_capacity(objects.len());
        for piece in objects.chunks(SEALS_AT_ONCE) {
            let is_small = is_small(session, piece, options);
            if is_small && self.is_leased(session, piece, options)? {
                self.put_leased(session, piece, options, &mut ids)?;
                continue;
            }
            let (begun, mut outcome) = if is_small {
                self.begin_together(session, piece, options)
            } else {
                self.begin_each(session, piece, options)
            };
            // Every answer is taken, also after an error.
            for (made, number) in begun {
                let sealed = end_seal(&self.connection, session, PUTTING, made, number);
                outcome = outcome.and(sealed);
                ids.push(made.1);
            }
            outcome?;
        }
        Ok(ids)
    }

    /// Whether all of some objects are put by one request each, from leased memory. Those of chosen
    /// ids are not: where one is refused, those behind it must not be there.
    fn is_leased(
        &self,
        session: &Session,
        objects: &[Many<'_>],
        options: &PutOptions,
    ) -> Result<bool> {
        let largest = objects.iter().map(|(_, data)| data.len() as u64).max().unwrap_or(0);
        let plan = Plan::new(PUTTING, largest, options)?;
        let is_new = |(chosen, _): &Many<'_>| chosen.is_none();
        Ok(self.is_small_durable(session, &plan, options.strict) && objects.iter().all(is_new))
    }

    /// Puts such objects. Where there is no memory for the next one, those before it are awaited:
    /// once the log has them, they may give way.
    fn put_leased(
        &self,
        session: &Session,
        objects: &[Many<'_>],
        options: &PutOptions,
        ids: &mut Vec<ObjectId>,
    ) -> Result<()> {
        let mut left = objects;
        while !left.is_empty() {
            let (begun, begin) = self.begin_leased(session, left, options);
            let count = begun.len();
            let mut outcome = Ok(());
            // Every answer is taken, also after an error.
            for put in begun {
                match self.end_small(session, put) {
                    Ok(id) => ids.push(id),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            outcome?;
            match begin {
                Err(error) if error.code() == Code::StoreFull && count > 0 => {}
                begin => begin?,
            }
            left = &left[count..];
        }
        Ok(())
    }

    /// Begins the puts of such objects; those before the first error.
    fn begin_leased(
        &self,
        session: &Session,
        objects: &[Many<'_>],
        options: &PutOptions,
    ) -> (Vec<SmallPut>, Result<()>) {
        let mut begun = Vec::with_capacity(objects.len());
        for (_, data) in objects {
            let put = Plan::new(PUTTING, data.len() as u64, options).and_then(|plan| {
                let parts = [*data];
                self.begin_small(session, &plan, payload_of(&parts, &plan, options))
            });
            match put {
                Ok(put) => begun.push(put),
                Err(error) => return (begun, Err(error)),
            }
        }
        (begun, Ok(()))
    }

    /// Begins the seals of objects, each of which is created alone; those before the first error.
    fn begin_each(
        &self,
        session: &Session,
        objects: &[Many<'_>],
        options: &PutOptions,
    ) -> (Vec<(Made, u64)>, Result<()>) {
        let mut begun = Vec::with_capacity(objects.len());
        for object in objects {
            let one = Plan::new(PUTTING, object.1.len() as u64, options).and_then(|plan| {
                let made = self.create_alone(session, object, &plan, options)?;
                Ok((made, begin_seal(&self.connection, session, PUTTING, made.0, made.1)?))
            });
            match one {
                Ok(one) => begun.push(one),
                Err(error) => return (begun, Err(error)),
            }
        }
        (begun, Ok(()))
    }

    /// The same for small objects, whose memory is asked for together.
    fn begin_together(
        &self,
        session: &Session,
        objects: &[Many<'_>],
        options: &PutOptions,
    ) -> (Vec<(Made, u64)>, Result<()>) {
        let (creations, refused) = self.begin_creations(session, objects, options);
        let (mut filled, mut outcome) = (Vec::with_capacity(creations.len()), Ok(()));
        for creation in creations {
            if outcome.is_err() {
                // What the daemon gives for it goes back.
                self.connection.abandon_request(creation.number);
                continue;
            }
            match self.end_creation(session, &creation, options) {
                Ok(made) => filled.push(made),
                Err(error) => outcome = Err(error),
            }
        }
        let mut begun = Vec::with_capacity(filled.len());
        for made in filled {
            match begin_seal(&self.connection, session, PUTTING, made.0, made.1) {
                Ok(number) => begun.push((made, number)),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        (begun, outcome.and(refused))
    }

    /// Asks for the memory of objects, up to the first for which that is refused at once.
    fn begin_creations<'a>(
        &self,
        session: &Session,
        objects: &'a [Many<'a>],
        options: &PutOptions,
    ) -> (Vec<Creation<'a>>, Result<()>) {
        session.drain();
        if let Err(error) = session.writing().verdicts.take_refusals(PUTTING) {
            return (Vec::new(), Err(error));
        }
        let mut creations = Vec::with_capacity(objects.len());
        for object in objects {
            match self.begin_creation(object, options) {
                Ok(creation) => creations.push(creation),
                Err(error) => return (creations, Err(error)),
            }
        }
        (creations, Ok(()))
    }

    fn begin_creation<'a>(
        &self,
        object: &'a Many<'a>,
        options: &PutOptions,
    ) -> Result<Creation<'a>> {
        let plan = Plan::new(PUTTING, object.1.len() as u64, options)?;
        let id = object.0.unwrap_or_else(|| self.new_id());
        let Plan { sizes, traits, .. } = plan;
        let request = Request::Create { id, sizes, traits, strict: false };
        let number = self.connection.begin(PUTTING, request).map_err(|error| error.about(id))?;
        Ok(Creation { object, plan, made: (id, id), number })
    }

    /// Takes the memory of an object and copies it there. One that got none is created alone.
    fn end_creation(
        &self,
        session: &Session,
        creation: &Creation<'_>,
        options: &PutOptions,
    ) -> Result<Made> {
        let Creation { object, ref plan, made: (id, _), number } = *creation;
        let answer = self.connection.answer(PUTTING, number, true);
        let mut answer = answer.map_err(|error| error.about(id))?;
        let (granted, fd) = match (answer.reply, answer.fds.pop()) {
            (Reply::Created(granted), Some(fd)) => (granted, fd),
            // Leases of this client's own may make room.
            (Reply::Failed(failure), _) if failure.code == Code::StoreFull => {
                return self.create_alone(session, object, plan, options);
            }
            (Reply::Failed(failure), _) => {
                return Err(Error::of_failure(PUTTING, failure).about(id));
            }
            _ => return Err(Error::unexpected(PUTTING)),
        };
        let mut writing = session.writing();
        // A creation that the daemon was not told of when the connection was resumed has ended.
        if writing.is_void(answer.link) {
            drop(writing);
            return self.create_alone(session, object, plan, options);
        }
        let (sizes, traits, range) = (plan.sizes, plan.traits, granted.range);
        writing.set_creating(PendingObject { id, sizes, traits, range, strict: false });
        drop(writing);
        let filled = map_created(&self.connection, session, &granted, fd, false).and_then(|span| {
            let mut created = ObjectMemory { span, range, warm: granted.warm };
            let parts = [object.1];
            let payload = payload_of(&parts, plan, options);
            write_created(&mut created, payload, self.copy_threads())?;
            keep_writers_out(session, created.span.extent())
        });
        if let Err(error) = filled {
            abandon(&self.connection, session, id);
            return Err(error.about(id));
        }
        Ok(creation.made)
    }

    /// Creates an object, awaits its memory and copies it there.
    fn create_alone(
        &self,
        session: &Session,
        (chosen, data): &Many<'_>,
        plan: &Plan,
        options: &PutOptions,
    ) -> Result<Made> {
        let parts = [*data];
        let payload = payload_of(&parts, plan, options);
        self.write_created(session, *chosen, plan, payload, options.strict)
    }
}

fn payload_of<'a>(data: &'a [&'a [u8]], plan: &'a Plan, options: &'a PutOptions) -> Payload<'a> {
    Payload { data, metadata: &options.metadata, attributes: &plan.attributes }
}

/// Whether the memory of objects may be asked for together: they are little of the store, and each
/// is made under the id that it keeps.
fn is_small(session: &Session, objects: &[Many<'_>], options: &PutOptions) -> bool {
    let welcome = &session.welcome;
    let tails = options.metadata.len() as u64 * objects.len() as u64;
    let bytes =
        objects.iter().map(|(_, data)| data.len() as u64).sum::<u64>().saturating_add(tails);
    let is_plain = !options.strict && welcome.level != Level::Strict && !options.replace;
    // A store without a log refuses the first one before a byte is copied.
    welcome.durable
        && is_plain
        && bytes <= TOGETHER_BYTES_MAX.min(welcome.capacity_bytes / TOGETHER_PART)
}
