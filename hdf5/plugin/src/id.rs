//! Identifiers of the library that we own.

use plasmon_hdf5_sys::{Herr, Hid};

use crate::host::Host;

/// An identifier that is closed when dropped.
pub(crate) struct Id {
    host: &'static Host,
    id: Hid,
    close: unsafe extern "C" fn(Hid) -> Herr,
}

impl Id {
    /// A type that we own.
    pub(crate) fn of_type(host: &'static Host, id: Hid) -> Option<Self> {
        (id >= 0).then_some(Self { host, id, close: host.api.H5Tclose })
    }

    /// A dataspace that we own.
    pub(crate) fn of_space(host: &'static Host, id: Hid) -> Option<Self> {
        (id >= 0).then_some(Self { host, id, close: host.api.H5Sclose })
    }

    /// A property list that we own.
    pub(crate) fn of_list(host: &'static Host, id: Hid) -> Option<Self> {
        (id >= 0).then_some(Self { host, id, close: host.api.H5Pclose })
    }

    /// An open file that we own.
    pub(crate) fn of_file(host: &'static Host, id: Hid) -> Option<Self> {
        (id >= 0).then_some(Self { host, id, close: host.api.H5Fclose })
    }

    /// An open dataset that we own.
    pub(crate) fn of_dataset(host: &'static Host, id: Hid) -> Option<Self> {
        (id >= 0).then_some(Self { host, id, close: host.api.H5Dclose })
    }

    /// A connector that we hold.
    pub(crate) fn of_connector(host: &'static Host, id: Hid) -> Option<Self> {
        (id >= 0).then_some(Self { host, id, close: host.api.H5VLclose })
    }

    /// An iterator over a selection that we own.
    pub(crate) fn of_iterator(host: &'static Host, id: Hid) -> Option<Self> {
        (id >= 0).then_some(Self { host, id, close: host.api.H5Ssel_iter_close })
    }

    /// The number.
    pub(crate) fn get(&self) -> Hid {
        self.id
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the identifier is ours, of the kind that this function closes, and closed once.
        self.host.keeping_errors(|| unsafe { (self.close)(self.id) });
    }
}
