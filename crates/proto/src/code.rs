//! The error codes: stable numbers, declared once, the same in Rust, C, Python and Java.
//!
//! A variant says what its receiver can do. The facts of one failure (object, sizes, process)
//! travel beside the code in the error types of each crate.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = $number:literal, $key:literal, $advice:literal;
    )+) => {
        /// What went wrong, as a stable number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl Code {
            /// Every code, in the order of the numbers.
            pub const ALL: &'static [Code] = &[$(Code::$name),+];

            /// The stable number.
            pub const fn number(self) -> u16 {
                self as u16
            }

            /// The code with this number.
            pub const fn from_number(number: u16) -> Option<Code> {
                match number {
                    $($number => Some(Code::$name),)+
                    _ => None,
                }
            }

            /// The stable name, as scripts and other languages see it.
            pub const fn key(self) -> &'static str {
                match self { $(Code::$name => $key,)+ }
            }

            /// What the caller can do about it.
            pub const fn advice(self) -> &'static str {
                match self { $(Code::$name => $advice,)+ }
            }
        }
    };
}

codes! {
    /// No object has this id.
    Absent = 1, "absent", "check its name or id, or wait for it with a timeout";
    /// The id is taken by an object that exists or is being created.
    Exists = 2, "exists", "get the existing object, delete it first, or use another id";
    /// The store has no room and nothing in it may be dropped or spilled.
    StoreFull = 3, "store_full",
        "delete or release objects, allow a spill directory, or start the store with more capacity";
    /// The client would own more bytes than its quota.
    QuotaExceeded = 4, "quota_exceeded", "delete some of this client's objects or raise its quota";
    /// The time given has passed.
    TimedOut = 5, "timed_out", "try again with a longer timeout";
    /// The process that was creating the object died before it sealed it.
    CreatorDied = 6, "creator_died", "create the object again";
    /// The object was deleted.
    Deleted = 7, "deleted", "create the object again if it is still needed";
    /// The object was evicted to make room.
    Evicted = 8, "evicted", "create the object again, or put it with the policy \"keep\"";
    /// The object exists but is not sealed yet.
    NotSealed = 9, "not_sealed", "wait for its creator to seal it";
    /// The object is sealed already.
    AlreadySealed = 10, "already_sealed", "a sealed object is immutable: create another one";
    /// The object is held by a client.
    InUse = 11, "in_use", "release every buffer of the object first";
    /// The object is larger than this store could ever hold.
    TooLarge = 12, "too_large", "start the store with more capacity or split the object";
    /// The client holds as many pins as one client may.
    TooManyPins = 13, "too_many_pins", "release buffers that are no longer used";
    /// This client may not do that.
    NotPermitted = 14, "not_permitted", "ask the owner of the store to admit this user for it";
    /// The daemon finds the request invalid.
    BadRequest = 15, "bad_request", "fix the call";
    /// The two sides speak different versions.
    VersionMismatch = 16, "version_mismatch", "install the same version on both sides";
    /// The daemon is gone and did not come back in time.
    Disconnected = 17, "disconnected", "start a store with `plasmon start`, then connect again";
    /// Only the creator may do that.
    NotOwner = 18, "not_owner", "do it in the process that created the object";
    /// The stored bytes do not match their checksum.
    Corrupt = 19, "corrupt", "delete the object and create it again";
    /// A limit of the store is reached.
    LimitReached = 20, "limit_reached", "use fewer of what the message names";
    /// A process has no free file descriptors.
    OutOfDescriptors = 21, "out_of_descriptors", "raise the limit of open files, then try again";
    /// The operating system refused.
    Io = 22, "io", "see the system's own message";
    /// A daemon already serves this socket.
    AlreadyRunning = 23, "already_running", "use the running store or give another socket";
    /// The operation was cancelled.
    Cancelled = 24, "cancelled", "start it again if it is still needed";
    /// This store or this build cannot do that.
    Unsupported = 25, "unsupported", "see the documentation for what this store supports";
    /// The object was inherited through a fork and belongs to the parent process.
    Forked = 26, "forked", "get the object again in this process";
    /// The pool cannot be asked now, or none of the nodes with a copy can be reached.
    Unreachable = 27, "unreachable", "try again; `plasmon doctor` looks at the pool's etcd";
    /// The pool has fewer live nodes than the object needs copies at least.
    NotEnoughNodes = 28, "not_enough_nodes",
        "start more nodes, or put the object with fewer copies";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_keys_are_unique_and_come_back() {
        let keys: std::collections::HashSet<_> = Code::ALL.iter().map(|code| code.key()).collect();
        assert_eq!(keys.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), Some(*code));
            assert!(!code.advice().is_empty());
        }
        assert_eq!(Code::from_number(0), None);
        assert_eq!(Code::from_number(u16::MAX), None);
    }
}
