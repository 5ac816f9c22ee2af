//! What HDF5 holds of us: one object of the native connector, wrapped.

use plasmon_hdf5_sys::Ptr;

/// A file, group, dataset, type or attribute. HDF5 holds it as a pointer, from the callback that
/// makes it to the one that closes it.
pub(crate) struct Node {
    /// The native connector's object.
    pub(crate) under: Ptr,
}

impl Node {
    /// Hands a new node to HDF5; null stays null, for that is a failed call.
    pub(crate) fn hand_out(under: Ptr) -> Ptr {
        if under.is_null() {
            return under;
        }
        Box::into_raw(Box::new(Self { under })).cast()
    }

    /// The native object behind a pointer that HDF5 holds; null stays null.
    ///
    /// # Safety
    ///
    /// The pointer is null or came from [`Node::hand_out`] and was not taken back.
    pub(crate) unsafe fn under(node: Ptr) -> Ptr {
        if node.is_null() {
            return node;
        }
        // SAFETY: promised by the caller; HDF5 does not close an object during a call about it.
        unsafe { (*node.cast::<Self>()).under }
    }

    /// Takes a node back.
    ///
    /// # Safety
    ///
    /// The pointer came from [`Node::hand_out`]; HDF5 does not use it again.
    pub(crate) unsafe fn take_back(node: Ptr) -> Box<Self> {
        // SAFETY: promised by the caller.
        unsafe { Box::from_raw(node.cast::<Self>()) }
    }
}
