//! What this node last wrote under a key of its own, as far as that is known.
//!
//! A call that etcd does not answer in time may be carried out all the same, later. So what is in
//! etcd is unknown from the begin of a call until one is answered. A node that took the value from
//! before for what is there would not write it again.

use plasmon_etcd::{Error, LeaseId};

/// What is under the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written<T> {
    /// Nothing was written yet.
    Nothing,
    /// A call began and was not answered.
    Unknown,
    /// This, under this lease.
    Known(LeaseId, T),
}

impl<T: PartialEq> Written<T> {
    /// Whether this is what is there, for certain.
    pub(super) fn is(&self, lease: LeaseId, value: &T) -> bool {
        matches!(self, Self::Known(under, written) if *under == lease && written == value)
    }

    /// Has it written by a call.
    pub(super) fn write<R>(
        &mut self,
        (lease, value): (LeaseId, T),
        call: impl FnOnce() -> Result<R, Error>,
    ) -> Result<(), Error> {
        *self = Self::Unknown;
        call()?;
        *self = Self::Known(lease, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The soak found a node that was left out for good: it had reported a peer while etcd was
    /// restarted, the call was not answered in time and carried out later, and meanwhile it had
    /// heard the peer again. It took its report from before, of no peer, for the one in etcd.
    #[test]
    fn what_was_there_before_a_call_without_an_answer_is_written_again() {
        let lease = LeaseId(1);
        let mut etcd = vec![];
        let mut written = Written::Nothing;
        assert!(!written.is(lease, &vec![]));
        written.write((lease, vec![]), || Ok(())).unwrap();
        assert!(written.is(lease, &vec![]) && !written.is(LeaseId(2), &vec![]));

        let late = |etcd: &mut Vec<u8>| {
            etcd.push(3);
            Err::<(), _>(Error::Unavailable { tried: "timeout".to_owned() })
        };
        assert!(written.write((lease, vec![3]), || late(&mut etcd)).is_err());
        assert_eq!((etcd, &written), (vec![3], &Written::Unknown));
        assert!(!written.is(lease, &vec![]));
    }
}
