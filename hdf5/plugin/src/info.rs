//! The connector's settings: what follows its name in `HDF5_VOL_CONNECTOR`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;

use plasmon_hdf5_sys::{Herr, Hid, Ptr, Text};

use crate::guard;
use crate::host;
use crate::host::Host;

/// The settings as HDF5 holds them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Info {
    /// As the program gave them.
    text: String,
}

/// The settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Where the data of new datasets goes.
    pub(crate) backend: Backend,
    /// The socket of the store; without one the user's own for new data, and that which the
    /// skeleton names for data that is there.
    pub(crate) store: Option<PathBuf>,
    /// Whether data is brought to the disk when a dataset is flushed or closed.
    pub(crate) syncs: bool,
}

/// Where data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Into Arrow files beside the skeleton.
    #[default]
    Files,
    /// Into objects of a store.
    Store,
}

impl Info {
    /// Reads the settings: words of the form `key=value`.
    fn settings(&self) -> Result<Settings, String> {
        let mut settings = Settings::default();
        for word in self.text.split([' ', ';', ',']).filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("backend", "files")) => settings.backend = Backend::Files,
                Some(("backend", "store")) => settings.backend = Backend::Store,
                Some(("store", socket)) if !socket.is_empty() => {
                    settings.store = Some(PathBuf::from(socket));
                }
                Some(("sync", "no")) => settings.syncs = false,
                Some(("sync", "yes")) => settings.syncs = true,
                // Settings of HDF5's own pass-through connector, which say what we do anyway.
                Some(("under_vol", "0")) | Some(("under_info", "{}")) => {}
                _ => {
                    return Err(format!(
                        "the connector has no setting {word:?}; there are backend=files, \
                         backend=store, store=SOCKET, sync=yes and sync=no"
                    ));
                }
            }
        }
        Ok(settings)
    }
}

/// The settings in a file access property list.
pub(crate) fn of_list(host: &Host, fapl: Hid) -> Result<Settings, String> {
    let mut info: Ptr = std::ptr::null_mut();
    // SAFETY: the list names our connector, so what is in it came from here; the copy that is
    // made is ours.
    let info = unsafe {
        (host.api.H5Pget_vol_info)(fapl, &raw mut info);
        if info.is_null() {
            return Ok(Settings::default());
        }
        Box::from_raw(info.cast::<Info>())
    };
    info.settings()
}

/// The size for HDF5, which holds only the pointer.
pub(crate) const BYTES: usize = size_of::<Info>();

/// Copies settings.
pub(crate) unsafe extern "C" fn copy(info: *const c_void) -> Ptr {
    if info.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: HDF5 hands back what came from here.
    let info = unsafe { &*info.cast::<Info>() };
    guard::or(std::ptr::null_mut(), || Box::into_raw(Box::new(info.clone())).cast())
}

/// Compares settings; missing ones come first.
pub(crate) unsafe extern "C" fn compare(
    order: *mut c_int,
    one: *const c_void,
    other: *const c_void,
) -> Herr {
    // SAFETY: HDF5 hands back what came from here, or null, and a place for the answer.
    unsafe {
        let [one, other] = [one, other].map(|info| info.cast::<Info>().as_ref());
        order.write(one.cmp(&other) as c_int);
    }
    0
}

/// Releases settings.
pub(crate) unsafe extern "C" fn free(info: Ptr) -> Herr {
    if !info.is_null() {
        // SAFETY: HDF5 hands back what came from here and does not use it again.
        drop(unsafe { Box::from_raw(info.cast::<Info>()) });
    }
    0
}

/// Writes settings as a text, in memory of the library.
pub(crate) unsafe extern "C" fn to_text<const SLOT: usize>(
    info: *const c_void,
    out: *mut *mut c_char,
) -> Herr {
    let host = host::of::<SLOT>();
    // SAFETY: HDF5 hands back what came from here, or null, and a place for the text, which it
    // frees by its own means; the memory has room for the text and its end.
    unsafe {
        let text = info.cast::<Info>().as_ref().map_or("", |info| info.text.as_str());
        let memory = (host.api.H5allocate_memory)(text.len() + 1, true).cast::<u8>();
        if memory.is_null() {
            return -1;
        }
        memory.copy_from_nonoverlapping(text.as_ptr(), text.len());
        memory.add(text.len()).write(0);
        out.write(memory.cast());
    }
    0
}

/// Reads settings from a text. Wrong ones are kept as they are: they are refused when a file is
/// opened, for a failure here would end an h5py program at its import.
pub(crate) unsafe extern "C" fn from_text(text: Text, out: *mut Ptr) -> Herr {
    if text.is_null() {
        // SAFETY: HDF5 gives a place for the settings.
        unsafe { out.write(std::ptr::null_mut()) };
        return 0;
    }
    // SAFETY: HDF5 gives a text that ends.
    let text = unsafe { CStr::from_ptr(text) };
    guard::or(-1, || {
        let info = Info { text: text.to_string_lossy().trim().to_owned() };
        // SAFETY: HDF5 gives a place for the settings, which it frees with `free`.
        unsafe { out.write(Box::into_raw(Box::new(info)).cast()) };
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        Info { text: text.to_owned() }.settings()
    }

    #[test]
    fn settings_are_words() {
        assert_eq!(settings(""), Ok(Settings::default()));
        assert_eq!(settings("backend=files"), Ok(Settings::default()));
        let syncing = Settings { syncs: true, ..Settings::default() };
        assert_eq!(settings("backend=files sync=yes"), Ok(syncing));
        assert_eq!(settings("under_vol=0;under_info={}"), Ok(Settings::default()));
    }

    #[test]
    fn a_store_has_a_socket() {
        let store = |socket: Option<&str>| Settings {
            backend: Backend::Store,
            store: socket.map(PathBuf::from),
            ..Settings::default()
        };
        assert_eq!(settings("backend=store"), Ok(store(None)));
        assert_eq!(settings("backend=store store=/run/s.sock"), Ok(store(Some("/run/s.sock"))));
        assert!(settings("backend=store store=").is_err());
    }

    #[test]
    fn unknown_settings_are_named() {
        for wrong in ["backend=tape", "sync", "sync=perhaps", "Backend=files"] {
            let error = settings(wrong).expect_err("refused");
            assert!(error.contains(wrong), "{error}");
        }
    }
}
