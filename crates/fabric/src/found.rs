//! Finding the endpoint of a provider that can do what is needed.

use std::ffi::{CStr, CString, c_int};
use std::net::IpAddr;
use std::ptr::{self, NonNull};

use plasmon_proto::fabric::Provider;

use crate::abi::{
    API_VERSION, FI_ADDR_STR, FI_CONTEXT, FI_CONTEXT2, FI_DELIVERY_COMPLETE, FI_EP_RDM,
    FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_NUMERICHOST,
    FI_REMOTE_WRITE, FI_RM_ENABLED, FI_RMA, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6,
    FI_SOURCE, FI_THREAD_SAFE, FI_TRANSMIT_COMPLETE, FI_WRITE, Info, version,
};
use crate::error::Error;
use crate::library::Library;
use crate::signals::keeping_signals;

/// Entries of a completion queue. More operations than that are never under way.
pub(crate) const COMPLETIONS: usize = 256;

/// Bytes of the longest name of an endpoint.
pub(crate) const NAME_BYTES_MAX: usize = 256;

/// A description of an endpoint that can be opened.
pub(crate) struct Found {
    info: NonNull<Info>,
    library: &'static Library,
}

// SAFETY: the description is plain memory that this value alone has.
unsafe impl Send for Found {}
// SAFETY: it is only read after it was made.
unsafe impl Sync for Found {}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: the library made it, and it is freed once.
        unsafe { (self.library.freeinfo)(self.info.as_ptr()) };
    }
}

/// What is to be known of an endpoint that was found.
#[derive(Clone, Debug)]
pub(crate) struct Traits {
    /// What the library calls the provider.
    pub(crate) provider: String,
    pub(crate) mr_mode: c_int,
    /// Bytes of the keys of registered memory.
    pub(crate) key_bytes: usize,
    /// The longest operation.
    pub(crate) operation_bytes_max: usize,
    /// Operations under way at most.
    pub(crate) operations_max: usize,
    /// The format of the names of endpoints.
    pub(crate) format: u32,
    /// What the completion of an operation says.
    pub(crate) completion: u64,
    pub(crate) av_type: c_int,
}

impl Traits {
    pub(crate) fn has(&self, mode: c_int) -> bool {
        self.mr_mode & mode != 0
    }

    /// Whether a name may be one of an endpoint that this one can reach. What a provider is given
    /// has to keep this: it takes the name for what its format says.
    pub(crate) fn is_name(&self, name: &[u8], own: &[u8]) -> bool {
        match self.format {
            FI_ADDR_STR => {
                name.len() <= NAME_BYTES_MAX
                    && name
                        .split_last()
                        .is_some_and(|(last, text)| *last == 0 && !text.contains(&0))
                    && name.len() > 1
            }
            // The first two bytes are the family, which says how long the rest is.
            FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => {
                name.len() == own.len() && name.get(..2) == own.get(..2)
            }
            _ => name.len() == own.len(),
        }
    }
}

/// What the installed library calls a provider.
fn library_name(library: &Library, provider: Provider) -> &'static str {
    let found = library.version;
    match provider {
        Provider::Verbs => "verbs;ofi_rxm",
        Provider::Efa => "efa",
        Provider::Net if version(found.major, found.minor) < version(1, 18) => "net",
        Provider::Net => "tcp",
        Provider::Shm => "shm",
    }
}

impl Found {
    /// The description, as the library takes it.
    pub(crate) fn as_ptr(&self) -> *mut Info {
        self.info.as_ptr()
    }

    /// Finds an endpoint of this provider, at this address where that means anything to it.
    pub(crate) fn find(
        library: &'static Library,
        provider: Provider,
        address: Option<IpAddr>,
    ) -> Result<Self, Error> {
        let wanted = library_name(library, provider);
        let mut last = None;
        // What a provider that cannot say that data has arrived says is that the peer's card has
        // taken it. The receiving side compares checksums in any case.
        for completion in [FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE] {
            let hints = Self::hints(library, wanted, provider, completion)?;
            match Self::ask(library, &hints, provider, address) {
                Ok(list) => match list.choose(wanted) {
                    Some(found) => return Ok(found),
                    None => last = Some(String::from("it offers nothing of this name")),
                },
                Err(error) => last = Some(error.to_string()),
            }
        }
        let reason = last.unwrap_or_default();
        Err(Error::NoProvider { provider: wanted.to_owned(), reason })
    }

    fn hints(
        library: &'static Library,
        wanted: &str,
        provider: Provider,
        completion: u64,
    ) -> Result<Self, Error> {
        // SAFETY: without an argument the call makes an empty description.
        let hints = NonNull::new(unsafe { (library.dupinfo)(ptr::null()) });
        let info = hints.ok_or_else(|| library.error("fi_dupinfo", libc::ENOMEM))?;
        let name = CString::new(wanted).map_err(|_| library.error("fi_getinfo", libc::EINVAL))?;
        let mr_mode = match provider {
            // With virtual addresses it would write to any address without looking at keys, from
            // the process that writes, whenever that runs.
            Provider::Shm => FI_MR_ALLOCATED,
            Provider::Verbs | Provider::Efa | Provider::Net => {
                FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT
            }
        };
        // SAFETY: a description that the library has made has all its parts, and the library frees
        // the copy of the name together with it.
        unsafe {
            let hints = info.as_ptr();
            (*hints).caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
            (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints).ep_attr).kind = FI_EP_RDM;
            (*(*hints).tx_attr).op_flags = completion;
            (*(*hints).domain_attr).mr_mode = mr_mode;
            (*(*hints).domain_attr).threading = FI_THREAD_SAFE;
            (*(*hints).domain_attr).resource_mgmt = FI_RM_ENABLED;
            (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
        Ok(Self { info, library })
    }

    /// The list of what the library has.
    fn ask(
        library: &'static Library,
        hints: &Self,
        provider: Provider,
        address: Option<IpAddr>,
    ) -> Result<Self, Error> {
        let is_at_address = matches!(provider, Provider::Verbs | Provider::Net);
        let node = address.filter(|_| is_at_address).map(|address| address.to_string());
        let node = node.and_then(|node| CString::new(node).ok());
        let flags = if node.is_some() { FI_SOURCE | FI_NUMERICHOST } else { 0 };
        let node = node.as_ref().map_or(ptr::null(), |node| node.as_ptr());
        let mut list = ptr::null_mut();
        // SAFETY: strings and hints live as long as the call, which writes one pointer.
        let returned = keeping_signals(|| unsafe {
            let (hints, list) = (hints.info.as_ptr(), &raw mut list);
            (library.getinfo)(API_VERSION, node, ptr::null(), flags, hints, list)
        });
        library.check("fi_getinfo", returned)?;
        let info = NonNull::new(list).ok_or_else(|| library.error("fi_getinfo", libc::ENODATA))?;
        Ok(Self { info, library })
    }

    /// The first of a list that is called so, and that checks what it is given.
    fn choose(self, wanted: &str) -> Option<Self> {
        let mut at = self.info.as_ptr();
        while !at.is_null() {
            // SAFETY: the list is the library's, whole, and ends with a null pointer.
            let (name, next) = unsafe { ((*(*at).fabric_attr).prov_name, (*at).next) };
            // SAFETY: the name of a provider is a C string.
            let is_wanted =
                !name.is_null() && unsafe { CStr::from_ptr(name) }.to_bytes() == wanted.as_bytes();
            // SAFETY: see above.
            let mr_mode = unsafe { (*(*at).domain_attr).mr_mode };
            let is_unchecked = wanted == "shm" && mr_mode & FI_MR_VIRT_ADDR != 0;
            if is_wanted && !is_unchecked {
                // SAFETY: the call copies one description of the list.
                let copy = unsafe { (self.library.dupinfo)(at) };
                let library = self.library;
                return NonNull::new(copy).map(|info| Self { info, library });
            }
            at = next;
        }
        None
    }

    /// What is to be known of it.
    pub(crate) fn traits(&self) -> Traits {
        let info = self.info.as_ptr();
        // SAFETY: a description that the library has made has all its parts.
        unsafe {
            let name = (*(*info).fabric_attr).prov_name;
            let domain = &*(*info).domain_attr;
            let operations = (*(*info).tx_attr).size;
            let is_delivered = (*(*info).tx_attr).op_flags & FI_DELIVERY_COMPLETE != 0;
            Traits {
                provider: CStr::from_ptr(name).to_string_lossy().into_owned(),
                mr_mode: domain.mr_mode,
                key_bytes: domain.mr_key_size,
                operation_bytes_max: (*(*info).ep_attr).max_msg_size,
                operations_max: operations.clamp(1, COMPLETIONS / 2),
                format: (*info).addr_format,
                completion: if is_delivered { FI_DELIVERY_COMPLETE } else { FI_TRANSMIT_COMPLETE },
                av_type: domain.av_type,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(format: u32) -> Traits {
        Traits {
            provider: String::from("a provider"),
            mr_mode: 0,
            key_bytes: 8,
            operation_bytes_max: 1,
            operations_max: 1,
            format,
            completion: FI_DELIVERY_COMPLETE,
            av_type: 0,
        }
    }

    /// A provider takes a name for what its format says, however long that is: a peer must not
    /// have it read what is behind the name.
    #[test]
    fn names_that_a_provider_would_read_beyond_are_refused() {
        let (ipv4, ipv6) = ([2, 0, 7, 7, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], [10_u8; 28]);
        for format in [FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6] {
            let is_name = |name: &[u8]| traits(format).is_name(name, &ipv4);
            let other = [2, 0, 9, 9, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
            assert!(is_name(&ipv4) && is_name(&other));
            assert!(!is_name(&[]) && !is_name(&ipv4[..15]) && !is_name(&ipv6));
            // An address of the other family, in as many bytes, is longer than that.
            assert!(!is_name(&[10, 0, 7, 7, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
        }
        let is_text = |name: &[u8]| traits(FI_ADDR_STR).is_name(name, b"fi_shm://1\0");
        assert!(is_text(b"fi_shm://22\0") && is_text(&[&[b'a'; 255][..], b"\0"].concat()));
        assert!(!is_text(b"fi_shm://22") && !is_text(b"") && !is_text(b"\0"));
        assert!(!is_text(b"fi\0shm\0") && !is_text(&[&[b'a'; 256][..], b"\0"].concat()));
        // Of other formats the length is known.
        assert!(traits(77).is_name(&[1; 32], &[0; 32]) && !traits(77).is_name(&[1; 31], &[0; 32]));
    }
}
