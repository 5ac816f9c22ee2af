//! The declarations beside the headers of the library, where these are installed.

use std::io::Write;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

const HEADERS: &str = "/usr/include/rdma/fi_cm.h";

/// Has the C compiler compare every field and number, in a second.
#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    let compiler = Command::new("cc").arg("--version").stdout(Stdio::null()).status();
    if !Path::new(HEADERS).exists() || !compiler.is_ok_and(|status| status.success()) {
        eprintln!("skipped: the headers of libfabric, or a C compiler, are not installed");
        return;
    }
    let mut text = String::from(
        "#include <stddef.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_eq.h>\n#include <rdma/fi_cm.h>\n\
         #include <rdma/fi_rma.h>\n#include <rdma/fi_errno.h>\n",
    );
    for (what, found) in fields().into_iter().chain(numbers()) {
        text.push_str(&format!("_Static_assert(({what}) == {found}ULL, \"{what}\");\n"));
    }
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

macro_rules! fields {
    ($($kind:ident = $struct:literal { $($field:ident $(= $name:literal)?),* $(,)? })*) => {
        vec![$($((
            {
                let names = [stringify!($field), $($name)?];
                format!("offsetof(struct {}, {})", $struct, names[names.len() - 1])
            },
            offset_of!($kind, $field) as u64,
        )),*),*]
    };
}

fn fields() -> Vec<(String, u64)> {
    let mut all = fields! {
        Fid = "fid" { class = "fclass", context, ops }
        FidOps = "fi_ops" { size, close, bind, control }
        TxAttr = "fi_tx_attr" { caps, mode, op_flags, msg_order, comp_order, inject_size, size }
        EpAttr = "fi_ep_attr" { kind = "type", protocol, protocol_version, max_msg_size }
        DomainAttr = "fi_domain_attr" {
            domain, name, threading, control_progress, data_progress, resource_mgmt, av_type,
            mr_mode, mr_key_size,
        }
        FabricAttr = "fi_fabric_attr" { fabric, name, prov_name, prov_version, api_version }
        Info = "fi_info" {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr,
        }
        FidFabric = "fid_fabric" { fid, ops }
        FabricOps = "fi_ops_fabric" { size, domain }
        AvAttr = "fi_av_attr" {
            kind = "type", rx_ctx_bits, count, ep_per_node, name, map_addr, flags,
        }
        CqAttr = "fi_cq_attr" {
            size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set,
        }
        FidDomain = "fid_domain" { fid, ops, mr }
        DomainOps = "fi_ops_domain" { size, av_open, cq_open, endpoint }
        MrOps = "fi_ops_mr" { size, reg }
        FidMr = "fid_mr" { fid, mem_desc, key }
        FidAv = "fid_av" { fid, ops }
        AvOps = "fi_ops_av" { size, insert }
        FidCq = "fid_cq" { fid, ops }
        CqOps = "fi_ops_cq" { size, read, readfrom, readerr, sread }
        CqEntry = "fi_cq_entry" { op_context }
        CqErrEntry = "fi_cq_err_entry" {
            op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size,
        }
        FidEp = "fid_ep" { fid, ops, cm, msg, rma }
        CmOps = "fi_ops_cm" { size, setname, getname }
        RmaOps = "fi_ops_rma" { size, read, readv, readmsg, write, writev, writemsg }
        RmaIov = "fi_rma_iov" { addr, len, key }
        MsgRma = "fi_msg_rma" {
            msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, context, data,
        }
    };
    // What this side allocates is as large as the library takes it to be.
    for (name, bytes) in [
        ("struct fi_av_attr", size_of::<AvAttr>()),
        ("struct fi_cq_attr", size_of::<CqAttr>()),
        ("struct fi_cq_entry", size_of::<CqEntry>()),
        ("struct fi_rma_iov", size_of::<RmaIov>()),
        ("struct fi_msg_rma", size_of::<MsgRma>()),
    ] {
        all.push((format!("sizeof({name})"), bytes as u64));
    }
    let room = size_of::<CqErrEntry>();
    all.push((format!("sizeof(struct fi_cq_err_entry) <= {room}"), 1));
    all
}

fn numbers() -> Vec<(String, u64)> {
    let flags = [
        ("FI_RMA", FI_RMA),
        ("FI_WRITE", FI_WRITE),
        ("FI_RECV", FI_RECV),
        ("FI_TRANSMIT", FI_TRANSMIT),
        ("FI_REMOTE_WRITE", FI_REMOTE_WRITE),
        ("FI_COMPLETION", FI_COMPLETION),
        ("FI_TRANSMIT_COMPLETE", FI_TRANSMIT_COMPLETE),
        ("FI_DELIVERY_COMPLETE", FI_DELIVERY_COMPLETE),
        ("FI_CONTEXT2", FI_CONTEXT2),
        ("FI_NUMERICHOST", FI_NUMERICHOST),
        ("FI_SOURCE", FI_SOURCE),
        ("FI_CONTEXT", FI_CONTEXT),
    ];
    let others = [
        ("FI_MR_LOCAL", FI_MR_LOCAL as u64),
        ("FI_MR_VIRT_ADDR", FI_MR_VIRT_ADDR as u64),
        ("FI_MR_ALLOCATED", FI_MR_ALLOCATED as u64),
        ("FI_MR_PROV_KEY", FI_MR_PROV_KEY as u64),
        ("FI_MR_ENDPOINT", FI_MR_ENDPOINT as u64),
        ("FI_EP_RDM", FI_EP_RDM as u64),
        ("FI_THREAD_SAFE", FI_THREAD_SAFE as u64),
        ("FI_RM_ENABLED", FI_RM_ENABLED as u64),
        ("FI_AV_TABLE", FI_AV_TABLE as u64),
        ("FI_CQ_FORMAT_CONTEXT", FI_CQ_FORMAT_CONTEXT as u64),
        ("FI_WAIT_NONE", FI_WAIT_NONE as u64),
        ("FI_WAIT_FD", FI_WAIT_FD as u64),
        ("FI_ENABLE", FI_ENABLE as u64),
        ("FI_SOCKADDR", FI_SOCKADDR.into()),
        ("FI_SOCKADDR_IN", FI_SOCKADDR_IN.into()),
        ("FI_SOCKADDR_IN6", FI_SOCKADDR_IN6.into()),
        ("FI_ADDR_STR", FI_ADDR_STR.into()),
        ("FI_EAGAIN", FI_EAGAIN as u64),
        ("FI_EAVAIL", FI_EAVAIL as u64),
        ("FI_VERSION(1, 17)", API_VERSION.into()),
    ];
    flags.into_iter().chain(others).map(|(name, found)| (name.to_owned(), found)).collect()
}
