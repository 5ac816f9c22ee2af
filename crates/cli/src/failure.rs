//! From errors to exit codes and messages.

use plasmon_client::Error;
use plasmon_proto::{Code, ObjectId};

/// Exit codes, as `--help` lists them.
pub(crate) mod exit {
    /// Something else went wrong.
    pub(crate) const FAILED: u8 = 1;
    /// The command line is wrong.
    pub(crate) const USAGE: u8 = 2;
    /// No store answers.
    pub(crate) const NO_STORE: u8 = 3;
    /// The object is not there.
    pub(crate) const ABSENT: u8 = 4;
    /// The object does not fit the store.
    pub(crate) const FULL: u8 = 5;
}

/// A wrong command line that only the command itself can detect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

/// A wrong command line.
pub(crate) fn usage(text: impl Into<String>) -> Usage {
    Usage(text.into())
}

/// An error about an object, in the words of the command line.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ObjectFailure {
    /// The stable code.
    pub(crate) code: Code,
    /// The object as it was typed.
    pub(crate) object: String,
    /// Its id, if one object is meant.
    pub(crate) id: Option<ObjectId>,
    /// The message.
    pub(crate) text: String,
}

/// No store answers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoStore(pub(crate) String);

/// An error as JSON, for programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The process's exit code.
    pub(crate) exit: u8,
    /// The stable code, or `usage` or `failed`.
    pub(crate) code: &'static str,
    /// The object that it is about.
    pub(crate) object: Option<String>,
    /// Its id.
    pub(crate) id: Option<ObjectId>,
}

/// The facts of an error.
pub(crate) fn facts(error: &anyhow::Error) -> Facts {
    let of_code = |code: Code, has_object| Facts {
        exit: exit_code(code, has_object),
        code: code.key(),
        ..Facts::default()
    };
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<ObjectFailure>() {
            let object = Some(failure.object.clone());
            return Facts { object, id: failure.id, ..of_code(failure.code, true) };
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            let id = error.id();
            return Facts { id, ..of_code(error.code(), id.is_some()) };
        }
        if let Some(error) = cause.downcast_ref::<plasmon_columns::Error>() {
            let id = match error {
                plasmon_columns::Error::Store(error) => error.id(),
                _ => None,
            };
            return Facts { id, ..of_code(error.code(), id.is_some()) };
        }
        let sorting = cause.downcast_ref::<plasmon_sort_store::Error>();
        if let Some(error) = sorting.and_then(plasmon_sort_store::Error::of_store) {
            let id = error.id();
            return Facts { id, ..of_code(error.code(), id.is_some()) };
        }
        if cause.is::<NoStore>() {
            return of_code(Code::Disconnected, false);
        }
        if cause.is::<Usage>() {
            return Facts { exit: exit::USAGE, code: "usage", ..Facts::default() };
        }
    }
    Facts { exit: exit::FAILED, code: "failed", ..Facts::default() }
}

/// An error and its causes. Many errors end with the text of their cause, which is not said twice.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn exit_code(code: Code, has_object: bool) -> u8 {
    match code {
        Code::Disconnected => exit::NO_STORE,
        Code::Absent | Code::Evicted | Code::Deleted | Code::CreatorDied | Code::NotSealed => {
            exit::ABSENT
        }
        // A daemon that does not answer in time is another matter.
        Code::TimedOut if has_object => exit::ABSENT,
        Code::StoreFull | Code::QuotaExceeded | Code::TooLarge => exit::FULL,
        _ => exit::FAILED,
    }
}

/// Whether the reader of the output closed it, which is not a failure of the command.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `plasmon pool init-certs /etc/passwd` said "File exists" twice.
    #[test]
    fn a_cause_is_not_said_twice() {
        let cause = || std::io::Error::other("it is full");
        let named = plasmon_certs::Error::Io { file: "/a".into(), source: cause() };
        let error = anyhow::Error::from(named).context("making it");
        assert_eq!(text(&error), "making it: /a: it is full");
        assert_eq!(text(&anyhow::Error::from(cause()).context("writing")), "writing: it is full");
        assert_eq!(text(&anyhow::anyhow!("alone")), "alone");
    }

    #[test]
    fn each_error_has_the_exit_code_that_the_help_promises() {
        let id = ObjectId::new([1; 20]);
        let store = |code| anyhow::Error::from(Error::new(code, "getting").with_id(id));
        for (error, exit, code) in [
            (anyhow::anyhow!("something"), 1, "failed"),
            (usage("wrong").into(), 2, "usage"),
            (NoStore(String::new()).into(), 3, "disconnected"),
            (store(Code::Disconnected), 3, "disconnected"),
            (store(Code::Absent), 4, "absent"),
            (store(Code::Evicted), 4, "evicted"),
            (store(Code::Deleted), 4, "deleted"),
            (store(Code::CreatorDied), 4, "creator_died"),
            (store(Code::NotSealed), 4, "not_sealed"),
            (store(Code::TimedOut), 4, "timed_out"),
            (Error::new(Code::TimedOut, "asking").into(), 1, "timed_out"),
            (store(Code::StoreFull), 5, "store_full"),
            (store(Code::QuotaExceeded), 5, "quota_exceeded"),
            (store(Code::TooLarge), 5, "too_large"),
            (store(Code::Corrupt), 1, "corrupt"),
            (
                plasmon_columns::Error::Store(Error::new(Code::StoreFull, "x")).into(),
                5,
                "store_full",
            ),
            (
                plasmon_sort_store::Error::Store(Error::new(Code::StoreFull, "x")).into(),
                5,
                "store_full",
            ),
        ] {
            let found = facts(&error.context("more"));
            assert_eq!((found.exit, found.code), (exit, code));
        }
    }
}
