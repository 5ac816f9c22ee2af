//! The objects that HDF5 gets: each wraps an object of the native connector.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use plasmon_hdf5_sys::{KIND_DATASET, Ptr};

use crate::arrow::array::Array;
use crate::arrow::transfer::{Call, Memory};
use crate::container::Container;
use crate::host::Host;
use crate::skeleton;

/// Why a transfer failed; without a text HDF5 has reported it.
pub(crate) type Failure = Option<String>;

/// The parts of a virtual dataset, whose data may be ours.
pub(crate) trait Parts {
    /// Moves what is selected between the sources and the memory; `None` when HDF5 is to do it.
    ///
    /// # Safety
    ///
    /// The memory has room for, or holds, what is selected in it.
    unsafe fn transfer(
        &self,
        under: Ptr,
        call: &Call,
        memory: Memory,
    ) -> Option<Result<(), Failure>>;
}

/// A file, group, dataset, type or attribute. HDF5 holds it as a pointer, from the callback that
/// makes it to the one that closes it.
pub(crate) struct Node {
    /// The native connector's object. It is exchanged when a dataset that was made without a link
    /// gets one.
    under: AtomicPtr<c_void>,
    /// The file that it was reached through.
    pub(crate) container: Arc<Container>,
    /// For a dataset: its data, if that is ours. Looked for when it is needed: a dataset comes up
    /// in many ways, and in most of them is never read.
    array: OnceLock<Option<Array>>,
    /// For a dataset: where its values are, if it is a virtual one.
    parts: OnceLock<Option<Box<dyn Parts>>>,
    /// For a dataset: whether its attributes may have changed.
    attributes_changed: AtomicBool,
}

impl Node {
    /// Hands a new node to HDF5; null stays null, for that is a failed call.
    pub(crate) fn hand_out(under: Ptr, container: Arc<Container>) -> Ptr {
        if under.is_null() {
            return under;
        }
        Box::into_raw(Box::new(Self {
            under: AtomicPtr::new(under),
            container,
            array: OnceLock::new(),
            parts: OnceLock::new(),
            attributes_changed: AtomicBool::new(false),
        }))
        .cast()
    }

    /// Hands out a node for an object that was reached through another; null stays null.
    ///
    /// # Safety
    ///
    /// As for [`Node::of`]; the other node is not null.
    pub(crate) unsafe fn hand_out_beside(under: Ptr, other: Ptr) -> Ptr {
        // SAFETY: promised by the caller.
        let Some(other) = (unsafe { Self::of(other) }) else { return std::ptr::null_mut() };
        Self::hand_out(under, Arc::clone(&other.container))
    }

    /// The node behind a pointer that HDF5 holds.
    ///
    /// # Safety
    ///
    /// The pointer is null or came from [`Node::hand_out`] and was not taken back; HDF5 does not
    /// close an object during a call about it.
    pub(crate) unsafe fn of<'n>(node: Ptr) -> Option<&'n Self> {
        // SAFETY: promised by the caller.
        unsafe { node.cast::<Self>().as_ref() }
    }

    /// The native object behind a pointer that HDF5 holds; null stays null.
    ///
    /// # Safety
    ///
    /// As for [`Node::of`].
    pub(crate) unsafe fn under(node: Ptr) -> Ptr {
        // SAFETY: promised by the caller.
        unsafe { Self::of(node).map_or(std::ptr::null_mut(), Self::native) }
    }

    /// The native connector's object.
    pub(crate) fn native(&self) -> Ptr {
        self.under.load(Ordering::Acquire)
    }

    /// Puts another object of the native connector in the place of the present one, which the
    /// caller has to close.
    pub(crate) fn exchange(&self, under: Ptr) -> Ptr {
        self.under.swap(under, Ordering::AcqRel)
    }

    /// A dataset's data, if that is ours.
    pub(crate) fn array(&self, host: &'static Host) -> Option<&Array> {
        let find = || {
            let array = Array::of_dataset(host, self.native(), &self.container)?;
            Some(array.among(self.container.ranks.is_some()))
        };
        self.array.get_or_init(find).as_ref()
    }

    /// A dataset's data, if that is ours and was looked for already.
    pub(crate) fn known_array(&self) -> Option<&Array> {
        self.array.get()?.as_ref()
    }

    /// A dataset's parts, if it is a virtual one.
    pub(crate) fn parts(
        &self,
        find: impl FnOnce() -> Option<Box<dyn Parts>>,
    ) -> Option<&dyn Parts> {
        self.parts.get_or_init(find).as_deref()
    }

    /// Whether data of ours was written through this object.
    pub(crate) fn was_written(&self) -> bool {
        self.known_array().is_some_and(|array| array.dirty.load(Ordering::Relaxed))
    }

    /// Writes the skeleton of an open dataset, to the disk if the program's settings require that.
    pub(crate) fn flush_dataset(&self, host: &Host) -> Result<(), String> {
        if !skeleton::flush(host, self.native(), KIND_DATASET) {
            return Err("the skeleton cannot be written".to_owned());
        }
        self.container.sync()
    }

    /// Remembers that the dataset's attributes may change.
    pub(crate) fn expect_attributes(&self) {
        self.attributes_changed.store(self.container.writable, Ordering::Relaxed);
    }

    /// Whether the dataset's attributes may have changed.
    pub(crate) fn may_have_attributes(&self) -> bool {
        self.attributes_changed.load(Ordering::Relaxed)
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
