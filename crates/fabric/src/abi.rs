//! What is used of libfabric's ABI: the structures that its calls pass, as 1.17 lays them out.
//!
//! Most of libfabric's calls are inline functions of its headers, which call through tables of
//! functions that each object has. The tables and structures grow at their ends alone, and a later
//! library lays out what was there before as it was: so their beginnings are declared here, and
//! neither headers nor a C compiler are needed to build this. The library itself allocates those
//! of which only the beginning is known ([`Info`] and its attributes). A test compares all of it
//! with the headers where these are installed.

#![allow(dead_code, reason = "a structure has the fields before those that are used")]

use std::ffi::{c_char, c_int, c_void};

/// The version of the interface that is asked for: 1.17.
pub(crate) const API_VERSION: u32 = version(1, 17);

pub(crate) const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// Capabilities, modes and flags of operations.
pub(crate) const FI_RMA: u64 = 1 << 2;
pub(crate) const FI_WRITE: u64 = 1 << 9;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_TRANSMIT: u64 = 1 << 11;
pub(crate) const FI_REMOTE_WRITE: u64 = 1 << 13;
pub(crate) const FI_COMPLETION: u64 = 1 << 24;
pub(crate) const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
pub(crate) const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub(crate) const FI_CONTEXT2: u64 = 1 << 52;
pub(crate) const FI_NUMERICHOST: u64 = 1 << 55;
pub(crate) const FI_SOURCE: u64 = 1 << 57;
pub(crate) const FI_CONTEXT: u64 = 1 << 59;

/// What a provider wants of registered memory.
pub(crate) const FI_MR_LOCAL: c_int = 1 << 2;
pub(crate) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(crate) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const FI_MR_PROV_KEY: c_int = 1 << 6;
pub(crate) const FI_MR_ENDPOINT: c_int = 1 << 9;

pub(crate) const FI_EP_RDM: c_int = 3;
pub(crate) const FI_THREAD_SAFE: c_int = 1;
pub(crate) const FI_RM_ENABLED: c_int = 2;
pub(crate) const FI_AV_TABLE: c_int = 2;
pub(crate) const FI_CQ_FORMAT_CONTEXT: c_int = 1;
pub(crate) const FI_WAIT_NONE: c_int = 0;
pub(crate) const FI_WAIT_FD: c_int = 3;
pub(crate) const FI_ENABLE: c_int = 6;

/// Formats of the names of endpoints.
pub(crate) const FI_SOCKADDR: u32 = 1;
pub(crate) const FI_SOCKADDR_IN: u32 = 2;
pub(crate) const FI_SOCKADDR_IN6: u32 = 3;
pub(crate) const FI_ADDR_STR: u32 = 9;

/// Errors, which calls return as negative numbers.
pub(crate) const FI_EAGAIN: i32 = libc::EAGAIN;
pub(crate) const FI_EAVAIL: i32 = 259;

#[repr(C)]
pub(crate) struct Fid {
    pub(crate) class: usize,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *const FidOps,
}

#[repr(C)]
pub(crate) struct FidOps {
    pub(crate) size: usize,
    pub(crate) close: Option<unsafe extern "C" fn(*mut Fid) -> c_int>,
    pub(crate) bind: Option<unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int>,
    pub(crate) control: Option<unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int>,
}

#[repr(C)]
pub(crate) struct TxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
}

#[repr(C)]
pub(crate) struct EpAttr {
    pub(crate) kind: c_int,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
}

#[repr(C)]
pub(crate) struct DomainAttr {
    pub(crate) domain: *mut FidDomain,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    pub(crate) control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
}

#[repr(C)]
pub(crate) struct FabricAttr {
    pub(crate) fabric: *mut FidFabric,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut Fid,
    pub(crate) tx_attr: *mut TxAttr,
    pub(crate) rx_attr: *mut c_void,
    pub(crate) ep_attr: *mut EpAttr,
    pub(crate) domain_attr: *mut DomainAttr,
    pub(crate) fabric_attr: *mut FabricAttr,
}

#[repr(C)]
pub(crate) struct FidFabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FabricOps,
}

#[repr(C)]
pub(crate) struct FabricOps {
    pub(crate) size: usize,
    pub(crate) domain: Option<
        unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
    >,
}

#[repr(C)]
pub(crate) struct AvAttr {
    pub(crate) kind: c_int,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct CqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct FidDomain {
    pub(crate) fid: Fid,
    pub(crate) ops: *const DomainOps,
    pub(crate) mr: *const MrOps,
}

#[repr(C)]
pub(crate) struct DomainOps {
    pub(crate) size: usize,
    pub(crate) av_open: Option<
        unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
    >,
    pub(crate) cq_open: Option<
        unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
    >,
    pub(crate) endpoint: Option<
        unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, *mut c_void) -> c_int,
    >,
}

/// `reg` takes domain, buffer, bytes, access, offset, wanted key, flags, result, context.
#[repr(C)]
pub(crate) struct MrOps {
    pub(crate) size: usize,
    pub(crate) reg: Option<
        unsafe extern "C" fn(
            *mut Fid,
            *const c_void,
            usize,
            u64,
            u64,
            u64,
            u64,
            *mut *mut FidMr,
            *mut c_void,
        ) -> c_int,
    >,
}

#[repr(C)]
pub(crate) struct FidMr {
    pub(crate) fid: Fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct FidAv {
    pub(crate) fid: Fid,
    pub(crate) ops: *const AvOps,
}

/// `insert` takes vector, addresses, count, results, flags, context; how many were inserted.
#[repr(C)]
pub(crate) struct AvOps {
    pub(crate) size: usize,
    pub(crate) insert: Option<
        unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
    >,
}

#[repr(C)]
pub(crate) struct FidCq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const CqOps,
}

/// `read` takes queue, entries, count; `sread` also a condition and a time in milliseconds.
#[repr(C)]
pub(crate) struct CqOps {
    pub(crate) size: usize,
    pub(crate) read: Option<unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize>,
    pub(crate) readfrom: *const c_void,
    pub(crate) readerr: Option<unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize>,
    pub(crate) sread:
        Option<unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *const c_void, c_int) -> isize>,
}

#[repr(C)]
pub(crate) struct CqEntry {
    pub(crate) op_context: *mut c_void,
}

#[repr(C)]
pub(crate) struct CqErrEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: usize,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
    /// Room for what later versions write here.
    pub(crate) later: [u64; 8],
}

#[repr(C)]
pub(crate) struct FidEp {
    pub(crate) fid: Fid,
    pub(crate) ops: *const c_void,
    pub(crate) cm: *const CmOps,
    pub(crate) msg: *const c_void,
    pub(crate) rma: *const RmaOps,
}

#[repr(C)]
pub(crate) struct CmOps {
    pub(crate) size: usize,
    pub(crate) setname: *const c_void,
    pub(crate) getname: Option<unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int>,
}

#[repr(C)]
pub(crate) struct RmaOps {
    pub(crate) size: usize,
    pub(crate) read: *const c_void,
    pub(crate) readv: *const c_void,
    pub(crate) readmsg: *const c_void,
    pub(crate) write: *const c_void,
    pub(crate) writev: *const c_void,
    pub(crate) writemsg: Option<unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize>,
}

#[repr(C)]
pub(crate) struct RmaIov {
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct MsgRma {
    pub(crate) msg_iov: *const libc::iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: u64,
    pub(crate) rma_iov: *const RmaIov,
    pub(crate) rma_iov_count: usize,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

/// Fields lie where the headers of 1.17 put them.
macro_rules! laid_out {
    ($($kind:ident { $($field:ident: $offset:literal),* $(,)? })*) => {
        $($(const _: () = assert!(std::mem::offset_of!($kind, $field) == $offset);)*)*
    };
}

laid_out! {
    Fid { class: 0, context: 8, ops: 16 }
    FidOps { close: 8, bind: 16, control: 24 }
    TxAttr { op_flags: 16, msg_order: 24, size: 48 }
    EpAttr { kind: 0, max_msg_size: 16 }
    DomainAttr { threading: 16, resource_mgmt: 28, av_type: 32, mr_mode: 36, mr_key_size: 40 }
    FabricAttr { name: 8, prov_name: 16, api_version: 28 }
    Info { caps: 8, mode: 16, addr_format: 24, src_addrlen: 32, tx_attr: 72, rx_attr: 80 }
    Info { ep_attr: 88, domain_attr: 96, fabric_attr: 104 }
    FidFabric { ops: 24 }
    FabricOps { domain: 8 }
    AvAttr { kind: 0, count: 8, flags: 40 }
    CqAttr { size: 0, format: 16, wait_obj: 20, wait_cond: 28, wait_set: 32 }
    FidDomain { ops: 24, mr: 32 }
    DomainOps { av_open: 8, cq_open: 16, endpoint: 24 }
    MrOps { reg: 8 }
    FidMr { mem_desc: 24, key: 32 }
    FidAv { ops: 24 }
    AvOps { insert: 8 }
    FidCq { ops: 24 }
    CqOps { read: 8, readerr: 24, sread: 32 }
    CqErrEntry { op_context: 0, olen: 48, err: 56, prov_errno: 60, err_data_size: 72, later: 80 }
    FidEp { cm: 32, rma: 48 }
    CmOps { getname: 16 }
    RmaOps { writemsg: 48 }
    RmaIov { addr: 0, len: 8, key: 16 }
    MsgRma { desc: 8, addr: 24, rma_iov: 32, context: 48, data: 56 }
}

#[cfg(test)]
mod tests;
