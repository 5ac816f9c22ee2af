//! The one error type of the client: a stable code, and the facts of this failure beside it.

use std::fmt;
use std::io;

use plasmon_proto::frame::BadFrame;
use plasmon_proto::message::Failure;
use plasmon_proto::object::ObjectState;
use plasmon_proto::{Code, Name, ObjectId};

/// What every operation of the client gives back.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation. Its text says what happened, to which object, and what the caller can do.
///
/// It is one pointer wide, so that results of the hot path stay in registers.
pub struct Error(Box<Facts>);

#[derive(Debug)]
struct Facts {
    code: Code,
    doing: &'static str,
    id: Option<ObjectId>,
    name: Option<String>,
    wanted: u64,
    found: u64,
    detail: String,
    source: Option<io::Error>,
    /// Whether what was asked for may have been done all the same.
    is_outcome_unknown: bool,
}

impl Error {
    /// An error with its code, and what was being done when it happened ("creating an object").
    pub fn new(code: Code, doing: &'static str) -> Self {
        Self(Box::new(Facts {
            code,
            doing,
            id: None,
            name: None,
            wanted: 0,
            found: 0,
            detail: String::new(),
            source: None,
            is_outcome_unknown: false,
        }))
    }

    /// An error of the operating system. Running out of descriptors has its own code.
    pub fn io(doing: &'static str, source: io::Error) -> Self {
        let descriptors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
        let out =
            descriptors.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()));
        let mut error = Self::new(if out { Code::OutOfDescriptors } else { Code::Io }, doing);
        error.0.source = Some(source);
        error
    }

    /// What the daemon answered for one of the objects that it was to delete: a code alone, which
    /// two causes of it have to be named for.
    pub fn of_delete(code: Code, id: ObjectId) -> Self {
        let error = Self::new(code, "deleting object").with_id(id);
        match code {
            Code::StoreFull => error.with_detail(
                "the log of durable objects has no room to note the delete: make room on its disk, \
                 which `plasmon status` names",
            ),
            Code::Io => error.with_detail(
                "the log of durable objects has failed and notes no deletes: `plasmon doctor` says \
                 why, and what to do",
            ),
            _ => error,
        }
    }

    /// What the daemon answered to a request.
    pub fn of_failure(doing: &'static str, failure: Failure) -> Self {
        let mut error = Self::new(failure.code, doing)
            .with_amounts(failure.wanted, failure.found)
            .with_detail(failure.detail);
        error.0.id = failure.id;
        error
    }

    /// Why an object in this state cannot be read; a readable one was lost between two looks.
    pub fn of_state(doing: &'static str, id: ObjectId, state: ObjectState) -> Self {
        Self::new(state.code().unwrap_or(Code::Absent), doing).with_id(id)
    }

    /// An answer that does not fit the question: the two sides do not speak the same protocol.
    pub(crate) fn unexpected(doing: &'static str) -> Self {
        Self::new(Code::VersionMismatch, doing)
            .with_detail("the daemon's answer has an unexpected form")
    }

    /// An object whose creation the present daemon has never heard of.
    pub(crate) fn forgotten(doing: &'static str, id: ObjectId) -> Self {
        Self::new(Code::Disconnected, doing).with_id(id).with_detail(
            "the daemon restarted before the object was sealed, so its memory is lost: put it \
             again",
        )
    }

    /// The daemon was restarted while the pool was asked to accept an object.
    pub(crate) fn perhaps_accepted(doing: &'static str, id: ObjectId) -> Self {
        Self::new(Code::Disconnected, doing).with_id(id).with_detail(
            "the daemon was restarted meanwhile; whether the pool has accepted the object is not \
             known: look for it, or put it again",
        )
    }

    /// The daemon was restarted while it put a durable object, and an object of its id is there:
    /// this one, or another that was there before.
    pub(crate) fn perhaps_put(doing: &'static str, id: ObjectId) -> Self {
        let mut error = Self::new(Code::Disconnected, doing).with_id(id).with_detail(
            "the daemon was restarted meanwhile; whether the object was put is not known: look \
             for it, or put it again with replace",
        );
        error.0.is_outcome_unknown = true;
        error
    }

    /// Whether what was asked for may have been done all the same, so that it is not to be asked
    /// for again.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        self.0.is_outcome_unknown
    }

    /// A frame that this side could not make or read.
    pub(crate) fn of_frame(doing: &'static str, bad: &BadFrame) -> Self {
        let code = match bad {
            BadFrame::Long { .. } => Code::LimitReached,
            _ => Code::VersionMismatch,
        };
        Self::new(code, doing).with_detail(bad.to_string())
    }

    /// The same error, naming the object.
    #[must_use]
    pub fn with_id(mut self, id: ObjectId) -> Self {
        self.0.id = Some(id);
        self
    }

    /// Adds the name by which a caller knows the object, unless the error is about another one,
    /// such as an earlier put that is found to be refused now.
    pub(crate) fn naming(self, name: Option<&Name>) -> Self {
        match name {
            Some(name) if self.id().is_none_or(|id| id == name.id()) => {
                self.with_name(name.to_string())
            }
            _ => self,
        }
    }

    /// The same error, with the object as its caller named it.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// The same error, naming the object unless it names one already.
    #[must_use]
    pub(crate) fn about(self, id: ObjectId) -> Self {
        if self.0.id.is_some() { self } else { self.with_id(id) }
    }

    /// The same error with its two quantities.
    #[must_use]
    pub fn with_amounts(mut self, wanted: u64, found: u64) -> Self {
        (self.0.wanted, self.0.found) = (wanted, found);
        self
    }

    /// The same error with words for a person.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What was being done.
    pub fn doing(&self) -> &'static str {
        self.0.doing
    }

    /// The object that it is about, if it is about one.
    pub fn id(&self) -> Option<ObjectId> {
        self.0.id
    }

    /// What was asked for, in bytes or as a count, or 0.
    pub fn wanted(&self) -> u64 {
        self.0.wanted
    }

    /// What was there, in the same unit, or 0.
    pub fn found(&self) -> u64 {
        self.0.found
    }

    /// More, for a person; may be empty.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The number of the operating system's error, if that was the cause.
    pub fn os_error(&self) -> Option<i32> {
        self.0.source.as_ref().and_then(io::Error::raw_os_error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &*self.0;
        write!(f, "{}", facts.doing)?;
        match (&facts.name, facts.id) {
            (Some(name), Some(id)) => write!(f, " \"{name}\" ({id})")?,
            (Some(name), None) => write!(f, " \"{name}\"")?,
            (None, Some(id)) => write!(f, " {id}")?,
            (None, None) => {}
        }
        write!(f, ": {}", sentence(facts.code))?;
        if facts.wanted != 0 || facts.found != 0 {
            write!(f, " (wanted {}, found {})", facts.wanted, facts.found)?;
        }
        if !facts.detail.is_empty() {
            write!(f, ": {}", facts.detail)?;
        }
        if let Some(source) = &facts.source {
            write!(f, ": {source}")?;
        }
        write!(f, "; {}", facts.code.advice())
    }
}

/// What a code means, as the middle of a sentence.
fn sentence(code: Code) -> &'static str {
    match code {
        Code::Absent => "the object does not exist, or no longer exists",
        Code::Exists => "the id is in use by an object that exists or is being created",
        Code::StoreFull => "the store is full, and no object in it can be evicted or spilled",
        Code::QuotaExceeded => "the object would exceed the quota of this client or namespace",
        Code::TimedOut => "the timeout has passed",
        Code::CreatorDied => "the object's creator died before sealing it",
        Code::Deleted => "the object was deleted",
        Code::Evicted => "the object was evicted to make room",
        Code::NotSealed => "the object is not sealed yet",
        Code::AlreadySealed => "the object is sealed already",
        Code::InUse => "the object is in use",
        Code::TooLarge => "the object is larger than this store can ever hold",
        Code::TooManyPins => "this client holds the maximum number of pins",
        Code::NotPermitted => "this client is not permitted to do that",
        Code::BadRequest => "the request is invalid",
        Code::VersionMismatch => "the client and the daemon speak different versions",
        Code::Disconnected => "the daemon is not reachable",
        Code::NotOwner => "only the creator of the object may do that",
        Code::Corrupt => "the stored bytes do not match their checksum",
        Code::LimitReached => "a limit is reached",
        Code::OutOfDescriptors => "the process has no free file descriptors",
        Code::Io => "the operating system returned an error",
        Code::AlreadyRunning => "a daemon already serves this socket",
        Code::Cancelled => "the operation was cancelled",
        Code::Unsupported => "this store does not support that",
        Code::Forked => "the object belongs to the parent process",
        Code::Unreachable => "the pool, or every node with a copy, cannot be reached",
        Code::NotEnoughNodes => "the pool has fewer live nodes than the object needs",
        other => other.key(),
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}, \"{self}\")", self.code().key())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_to_which_object_and_what_to_do() {
        let id = ObjectId::new([0xab; 20]);
        let error = Error::new(Code::StoreFull, "creating object").with_id(id).with_amounts(10, 5);
        let text = error.to_string();
        assert!(text.starts_with("creating object abab"), "{text}");
        assert!(text.contains("the store is full"), "{text}");
        assert!(text.contains("wanted 10, found 5"), "{text}");
        assert!(text.ends_with(Code::StoreFull.advice()), "{text}");
    }

    /// A delete that the log did not note was said to lack memory, or the system's own message.
    #[test]
    fn a_delete_that_is_not_in_the_log_names_the_log() {
        let id = ObjectId::new([0xab; 20]);
        let text = |code| Error::of_delete(code, id).to_string();
        for (code, words) in [
            (Code::StoreFull, "no room to note the delete"),
            (Code::Io, "`plasmon doctor` says why"),
        ] {
            let text = text(code);
            assert!(text.starts_with("deleting object abab"), "{text}");
            assert!(text.contains(words), "{text}");
        }
        assert!(!text(Code::Absent).contains("log"));
    }

    /// A put of a name said of a name in use which id it has, and not the name.
    #[test]
    fn an_error_names_its_own_object() {
        let name = Name::new("", "@prod:sales").unwrap();
        let error = || Error::new(Code::Exists, "putting object");
        let own = error().with_id(name.id()).naming(Some(&name)).to_string();
        assert!(own.starts_with("putting object \"@prod:sales\" ("), "{own}");
        let none = error().naming(Some(&name)).to_string();
        assert!(none.starts_with("putting object \"@prod:sales\":"), "{none}");
        let other = error().with_id(ObjectId::new([0xab; 20])).naming(Some(&name)).to_string();
        assert!(other.starts_with("putting object abab"), "{other}");
        assert!(error().naming(None).to_string().starts_with("putting object:"));
    }

    #[test]
    fn running_out_of_descriptors_is_distinguished() {
        let system = |errno: rustix::io::Errno| {
            Error::io("mapping", io::Error::from_raw_os_error(errno.raw_os_error()))
        };
        assert_eq!(system(rustix::io::Errno::MFILE).code(), Code::OutOfDescriptors);
        assert_eq!(system(rustix::io::Errno::PERM).code(), Code::Io);
        let perm = rustix::io::Errno::PERM.raw_os_error();
        assert_eq!(system(rustix::io::Errno::PERM).os_error(), Some(perm));
    }

    #[test]
    fn every_code_has_its_sentence() {
        for code in Code::ALL {
            assert!(sentence(*code).contains(' '), "{}", code.key());
        }
    }
}
