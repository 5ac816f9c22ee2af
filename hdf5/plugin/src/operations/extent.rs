//! `H5Dset_extent` of a dataset whose data is ours.
//!
//! New rows are in the file of data before the skeleton counts them, and rows leave it after the
//! skeleton forgot them: whenever the process is killed, what the skeleton names is there.

use plasmon_hdf5_sys::arguments::{Single, dataset};
use plasmon_hdf5_sys::{Herr, Ptr};

use crate::arrow::array::Array;
use crate::arrow::eligibility;
use crate::host::Host;
use crate::id::Id;
use crate::node::Node;
use crate::operations::creation::fill_values;
use crate::skeleton::get;

/// Gives a dataset other dimensions. `native` does so in the skeleton.
///
/// # Safety
///
/// The arguments are those of `H5Dset_extent`.
pub(crate) unsafe fn set_extent(
    host: &'static Host,
    node: &Node,
    arguments: Ptr,
    native: &dyn Fn() -> Herr,
) -> Result<Herr, String> {
    let Some(array) = node.array(host) else { return Ok(native()) };
    if !array.grows() {
        // HDF5 would let external storage shrink, which the program does not know of.
        return Err("unable to modify size of dataset: it has contiguous storage".to_owned());
    }
    let space = get(host, node.native(), dataset::GET_SPACE).and_then(|id| Id::of_space(host, id));
    let space = space.ok_or("the dataset has no dataspace")?;
    let (now, most) =
        eligibility::shape(host, space.get()).ok_or("the dataset has no dimensions")?;
    // SAFETY: promised by the caller: there are as many dimensions as the dataset has.
    let wanted = unsafe {
        let sizes = (&raw const (*arguments.cast::<Single>()).value).cast::<*const u64>().read();
        std::slice::from_raw_parts(sizes, now.len())
    };
    if !node.container.writable || wanted[0] > most[0] || wanted == now {
        // HDF5 says what is wrong with it.
        return Ok(native());
    }
    if array.is_shared() {
        return Err("several processes cannot change the rows of Arrow data".to_owned());
    }
    if wanted[1..] != now[1..] {
        if wanted.iter().zip(&most).any(|(wanted, most)| wanted > most) {
            return Ok(native());
        }
        return Err("only the first dimension of Arrow data can change".to_owned());
    }
    if wanted[0] < now[0] {
        return shrink(host, node, array, wanted[0], native);
    }
    let fill = fill_of(host, node).ok_or("the fill value cannot be read")?;
    array.resize(node.native(), &array.now(node.native())?, wanted[0], &fill)?;
    let done = native();
    if done < 0 {
        // Rows that the skeleton does not count do no harm; they go when the next are added.
        let _ = host.keeping_errors(|| array.settle(node.native()));
    }
    Ok(done)
}

fn shrink(
    host: &'static Host,
    node: &Node,
    array: &Array,
    rows: u64,
    native: &dyn Fn() -> Herr,
) -> Result<Herr, String> {
    let before = array.now(node.native())?;
    let done = native();
    if done < 0 {
        return Ok(done);
    }
    node.flush_dataset(host)?;
    array.resize(node.native(), &before, rows, &[])?;
    Ok(done)
}

/// The value of new elements, for each column.
fn fill_of(host: &'static Host, node: &Node) -> Option<Vec<Vec<u8>>> {
    let dcpl = Id::of_list(host, get(host, node.native(), dataset::GET_CREATION)?)?;
    let kind = Id::of_type(host, get(host, node.native(), dataset::GET_TYPE)?)?;
    fill_values(host, kind.get(), dcpl.get()).ok()
}
