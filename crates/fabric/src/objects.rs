//! The objects of libfabric that make an endpoint, and the calls through their tables.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::abi::{
    AvAttr, CqAttr, CqEntry, CqErrEntry, FI_AV_TABLE, FI_COMPLETION, FI_CQ_FORMAT_CONTEXT,
    FI_EAGAIN, FI_EAVAIL, FI_MR_ENDPOINT, FI_RECV, FI_TRANSMIT, FI_WAIT_FD, FI_WAIT_NONE, FidAv,
    FidCq, FidDomain, FidEp, FidFabric, FidMr, Info, MsgRma, RmaIov,
};
use crate::error::Error;
use crate::found::{COMPLETIONS, Found, NAME_BYTES_MAX, Traits};
use crate::library::Library;
use crate::object::{FI_ENOSYS, Object};

/// Completions that are read at once.
pub(crate) const READ_AT_ONCE: usize = 16;

/// An endpoint with all that it needs. It is closed first, the others in their order.
pub(crate) struct Objects {
    ep: Option<Object<FidEp>>,
    cq: Object<FidCq>,
    av: Object<FidAv>,
    domain: Object<FidDomain>,
    _fabric: Object<FidFabric>,
    _found: Found,
    library: &'static Library,
    /// Whether the queue can be waited for.
    pub(crate) can_wait: bool,
}

impl Objects {
    /// Opens what was found.
    pub(crate) fn open(library: &'static Library, found: Found) -> Result<Self, Error> {
        let info = found.as_ptr();
        let traits = found.traits();
        let mut made = ptr::null_mut();
        // SAFETY: the description is whole; the call writes one pointer.
        let returned =
            unsafe { (library.fabric)((*info).fabric_attr, &raw mut made, ptr::null_mut()) };
        library.check("fi_fabric", returned)?;
        let fabric = Object::new(library, "fi_fabric", made)?;
        let domain = open_domain(library, &fabric, info)?;
        let av = open_av(library, &domain, traits.av_type)?;
        let (cq, can_wait) = open_cq(library, &domain)?;
        let ep = open_ep(library, &domain, info)?;
        ep.bind(&av, 0)?;
        ep.bind(&cq, FI_TRANSMIT | FI_RECV)?;
        ep.enable()?;
        let ep = Some(ep);
        Ok(Self { ep, cq, av, domain, _fabric: fabric, _found: found, library, can_wait })
    }

    pub(crate) fn ep(&self) -> Result<&Object<FidEp>, Error> {
        self.ep.as_ref().ok_or(Error::Closed)
    }

    /// Closes the endpoint: after that nothing is written into the memory of its windows.
    pub(crate) fn close_ep(&mut self) -> Result<(), Error> {
        self.ep.take().map_or(Ok(()), Object::close)
    }

    /// The name by which others reach the endpoint.
    pub(crate) fn name(&self) -> Result<Vec<u8>, Error> {
        let ep = self.ep()?;
        // SAFETY: an endpoint that is open has this table.
        let cm = unsafe { (*ep.as_ptr()).cm.as_ref() };
        let getname = cm.and_then(|cm| cm.getname);
        let getname = getname.ok_or_else(|| self.library.error("fi_getname", FI_ENOSYS))?;
        let mut name = vec![0_u8; NAME_BYTES_MAX];
        let mut bytes = name.len();
        // SAFETY: the buffer has so many bytes.
        let returned = unsafe { getname(ep.fid(), name.as_mut_ptr().cast(), &raw mut bytes) };
        self.library.check("fi_getname", returned)?;
        name.truncate(bytes);
        Ok(name)
    }

    /// The number by which this endpoint knows another one. The name has been checked.
    pub(crate) fn insert(&self, name: &[u8]) -> Result<u64, Error> {
        // SAFETY: the table of an open vector is there.
        let insert = unsafe { (*(*self.av.as_ptr()).ops).insert };
        let insert = insert.ok_or_else(|| self.library.error("fi_av_insert", FI_ENOSYS))?;
        let mut number = 0;
        let from: *const c_void = name.as_ptr().cast();
        let av = self.av.as_ptr();
        // SAFETY: the name is one of the format of this vector, see `Traits::is_name`.
        let count = unsafe { insert(av, from, 1, &raw mut number, 0, ptr::null_mut()) };
        self.library.check("fi_av_insert", count)?;
        if count == 1 { Ok(number) } else { Err(self.library.error("fi_av_insert", libc::EINVAL)) }
    }

    /// Registers memory.
    ///
    /// # Safety
    ///
    /// The memory is readable, and with `FI_REMOTE_WRITE` writable and used by nothing else, until
    /// the registration is closed and nothing is under way in it, or the endpoint is closed.
    pub(crate) unsafe fn register(
        &self,
        traits: &Traits,
        (start, bytes): (*mut u8, usize),
        access: u64,
        key: u64,
    ) -> Result<Object<FidMr>, Error> {
        // SAFETY: the table of an open domain is there.
        let reg = unsafe { (*(*self.domain.as_ptr()).mr).reg };
        let reg = reg.ok_or_else(|| self.library.error("fi_mr_reg", FI_ENOSYS))?;
        let (domain, mut made) = (self.domain.fid(), ptr::null_mut());
        let (start, none) = (start.cast_const().cast(), ptr::null_mut());
        // SAFETY: as the caller says.
        let returned = unsafe { reg(domain, start, bytes, access, 0, key, 0, &raw mut made, none) };
        self.library.check("fi_mr_reg", returned)?;
        let region = Object::new(self.library, "fi_mr_reg", made)?;
        if traits.has(FI_MR_ENDPOINT) {
            region.bind(self.ep()?, 0)?;
            region.enable()?;
        }
        Ok(region)
    }
}

/// Where an operation writes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) peer: u64,
    pub(crate) address: u64,
    pub(crate) key: u64,
}

/// What a completion queue had.
pub(crate) enum Read {
    /// Nothing.
    Nothing,
    /// The contexts of operations that are complete.
    Done([*mut c_void; READ_AT_ONCE], usize),
    /// The context of one that failed, and why.
    Failed(*mut c_void, Error),
}

impl Objects {
    /// Begins a write; false when the provider takes no more now.
    ///
    /// # Safety
    ///
    /// The memory is readable, and the context the operation's alone with room for eight words,
    /// until its completion was read or the endpoint is closed.
    pub(crate) unsafe fn write(
        &self,
        completion: u64,
        from: (*const u8, usize),
        description: *mut c_void,
        to: Remote,
        context: *mut c_void,
    ) -> Result<bool, Error> {
        let ep = self.ep()?;
        // SAFETY: an endpoint that is open has this table when it was found for this.
        let rma = unsafe { (*ep.as_ptr()).rma.as_ref() };
        let writemsg = rma.and_then(|rma| rma.writemsg);
        let writemsg = writemsg.ok_or_else(|| self.library.error("fi_writemsg", FI_ENOSYS))?;
        let local = libc::iovec { iov_base: from.0.cast_mut().cast(), iov_len: from.1 };
        let remote = RmaIov { addr: to.address, len: from.1, key: to.key };
        let mut description = description;
        let message = MsgRma {
            msg_iov: &raw const local,
            desc: &raw mut description,
            iov_count: 1,
            addr: to.peer,
            rma_iov: &raw const remote,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        let flags = completion | FI_COMPLETION;
        // SAFETY: the message and what it names live as long as the call, and the memory as the
        // caller says.
        let returned = unsafe { writemsg(ep.as_ptr(), &raw const message, flags) };
        match i32::try_from(returned).unwrap_or(i32::MIN) {
            code if code >= 0 => Ok(true),
            code if code == -FI_EAGAIN => Ok(false),
            code => Err(self.library.error("fi_writemsg", code.saturating_neg())),
        }
    }

    /// Reads completions, which also moves what is under way, and waits for them for so many
    /// milliseconds where the queue can be waited for.
    pub(crate) fn read(&self, wait_ms: Option<i32>) -> Result<Read, Error> {
        let mut entries = [const { CqEntry { op_context: ptr::null_mut() } }; READ_AT_ONCE];
        // SAFETY: the table of an open queue is there.
        let ops = unsafe { &*(*self.cq.as_ptr()).ops };
        let into: *mut c_void = entries.as_mut_ptr().cast();
        let cq = self.cq.as_ptr();
        let wait_ms = wait_ms.filter(|_| self.can_wait);
        let count = if let (Some(ms), Some(sread)) = (wait_ms, ops.sread) {
            // SAFETY: there is room for so many entries.
            unsafe { sread(cq, into, READ_AT_ONCE, ptr::null(), ms) }
        } else {
            let read = ops.read.ok_or_else(|| self.library.error("fi_cq_read", FI_ENOSYS))?;
            // SAFETY: as above.
            unsafe { read(cq, into, READ_AT_ONCE) }
        };
        match i32::try_from(count).unwrap_or(i32::MIN) {
            0 => Ok(Read::Nothing),
            count if count > 0 => {
                let contexts = entries.map(|entry| entry.op_context);
                Ok(Read::Done(contexts, (count as usize).min(READ_AT_ONCE)))
            }
            code if code == -FI_EAGAIN || code == -libc::EINTR || code == -libc::ECANCELED => {
                Ok(Read::Nothing)
            }
            code if code == -FI_EAVAIL => self.read_error(),
            code => Err(self.library.error("fi_cq_read", code.saturating_neg())),
        }
    }

    fn read_error(&self) -> Result<Read, Error> {
        // SAFETY: zeros are a value of this structure.
        let mut entry: CqErrEntry = unsafe { std::mem::zeroed() };
        // SAFETY: the table of an open queue is there.
        let readerr = unsafe { (*(*self.cq.as_ptr()).ops).readerr };
        let readerr = readerr.ok_or_else(|| self.library.error("fi_cq_readerr", FI_ENOSYS))?;
        // SAFETY: the entry has room for what any version writes.
        let count = unsafe { readerr(self.cq.as_ptr(), &raw mut entry, 0) };
        let count = i32::try_from(count).unwrap_or(i32::MIN);
        if count == -FI_EAGAIN || count == 0 {
            return Ok(Read::Nothing);
        }
        self.library.check("fi_cq_readerr", count)?;
        Ok(Read::Failed(entry.op_context, self.library.error("a write", entry.err)))
    }
}

fn open_domain(
    library: &'static Library,
    fabric: &Object<FidFabric>,
    info: *mut Info,
) -> Result<Object<FidDomain>, Error> {
    // SAFETY: the table of an open fabric is there.
    let open = unsafe { (*(*fabric.as_ptr()).ops).domain };
    let open = open.ok_or_else(|| library.error("fi_domain", FI_ENOSYS))?;
    let mut made = ptr::null_mut();
    // SAFETY: fabric and description belong together.
    let returned = unsafe { open(fabric.as_ptr(), info, &raw mut made, ptr::null_mut()) };
    library.check("fi_domain", returned)?;
    Object::new(library, "fi_domain", made)
}

fn open_av(
    library: &'static Library,
    domain: &Object<FidDomain>,
    av_type: c_int,
) -> Result<Object<FidAv>, Error> {
    // SAFETY: the table of an open domain is there.
    let open = unsafe { (*(*domain.as_ptr()).ops).av_open };
    let open = open.ok_or_else(|| library.error("fi_av_open", FI_ENOSYS))?;
    let mut attr = AvAttr {
        kind: if av_type == 0 { FI_AV_TABLE } else { av_type },
        rx_ctx_bits: 0,
        count: 0,
        ep_per_node: 0,
        name: ptr::null(),
        map_addr: ptr::null_mut(),
        flags: 0,
    };
    let mut made = ptr::null_mut();
    // SAFETY: the attributes live as long as the call.
    let returned = unsafe { open(domain.as_ptr(), &raw mut attr, &raw mut made, ptr::null_mut()) };
    library.check("fi_av_open", returned)?;
    Object::new(library, "fi_av_open", made)
}

/// A queue that can be waited for, if the provider has such.
fn open_cq(
    library: &'static Library,
    domain: &Object<FidDomain>,
) -> Result<(Object<FidCq>, bool), Error> {
    // SAFETY: the table of an open domain is there.
    let open = unsafe { (*(*domain.as_ptr()).ops).cq_open };
    let open = open.ok_or_else(|| library.error("fi_cq_open", FI_ENOSYS))?;
    let mut last = Error::Closed;
    for wait_obj in [FI_WAIT_FD, FI_WAIT_NONE] {
        let mut attr = CqAttr {
            size: COMPLETIONS,
            flags: 0,
            format: FI_CQ_FORMAT_CONTEXT,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        let mut made = ptr::null_mut();
        // SAFETY: the attributes live as long as the call.
        let returned =
            unsafe { open(domain.as_ptr(), &raw mut attr, &raw mut made, ptr::null_mut()) };
        match library.check("fi_cq_open", returned) {
            Ok(()) => {
                return Ok((Object::new(library, "fi_cq_open", made)?, wait_obj == FI_WAIT_FD));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open_ep(
    library: &'static Library,
    domain: &Object<FidDomain>,
    info: *mut Info,
) -> Result<Object<FidEp>, Error> {
    // SAFETY: the table of an open domain is there.
    let open = unsafe { (*(*domain.as_ptr()).ops).endpoint };
    let open = open.ok_or_else(|| library.error("fi_endpoint", FI_ENOSYS))?;
    let mut made = ptr::null_mut();
    // SAFETY: domain and description belong together.
    let returned = unsafe { open(domain.as_ptr(), info, &raw mut made, ptr::null_mut()) };
    library.check("fi_endpoint", returned)?;
    Object::new(library, "fi_endpoint", made)
}
