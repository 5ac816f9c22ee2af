//! Pinned objects: bytes that stay where they are for as long as somebody looks at them.

use std::marker::PhantomData;
use std::ops::Deref;

use plasmon_proto::ObjectId;
use plasmon_proto::object::Policy;

/// An object pinned for as long as the store is borrowed: the cheapest way to read.
#[derive(Debug)]
pub struct Pinned<'a> {
    store: PhantomData<&'a ()>,
}

/// An object pinned by a handle of its own. Clones share one pin, and the last one releases it.
#[derive(Clone, Debug)]
pub struct Buffer {}

macro_rules! reading {
    () => {
        /// The object's data.
        pub fn data(&self) -> &[u8] {
            &[]
        }
        /// The object's metadata.
        pub fn metadata(&self) -> &[u8] {
            &[]
        }
        /// The object's id.
        pub fn id(&self) -> ObjectId {
            ObjectId::new([0; 20])
        }
        /// What kind of value the bytes hold.
        pub fn tag(&self) -> u8 {
            0
        }
        /// The number of this incarnation of the object, never used again.
        pub fn serial(&self) -> u64 {
            0
        }
        /// When it was created, in milliseconds since 1970.
        pub fn created_ms(&self) -> u64 {
            0
        }
        /// What the store may do with it when memory is short.
        pub fn policy(&self) -> Policy {
            Policy::Keep
        }
    };
}

impl Pinned<'_> {
    reading!();
}

impl Buffer {
    reading!();
}

impl Deref for Pinned<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.data()
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.data()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}
