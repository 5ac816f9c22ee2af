//! Arrays by their own fields, which are looked at where NumPy has them.

use plasmon_cpython::dtype::array_type;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::errors::changed;
use super::raw::Ptr;
use super::raw::ndarray::fields;

/// Moves references into an array of objects that is new, or that held None. It must have that many
/// elements: what was there is dropped by the caller.
pub(super) fn set_items(array: &Bound<'_, PyAny>, items: &mut [Ptr]) -> PyResult<()> {
    let py = array.py();
    if items.is_empty() {
        return Ok(());
    }
    if !fields_fit(py) {
        let flat = array.call_method1("reshape", (-1,))?;
        if flat.len()? != items.len() {
            return Err(changed());
        }
        for (at, item) in items.iter().enumerate() {
            // SAFETY: alive: the caller holds it.
            flat.set_item(at, unsafe { Bound::from_borrowed_ptr(py, *item) })?;
        }
        return Ok(());
    }
    let kind: char =
        array.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "kind"))?.extract()?;
    let exact = array_type(py)?.is_some_and(|class| array.get_type().is(class));
    if kind != 'O' || !exact {
        return Err(changed());
    }
    // SAFETY: an exact array that is alive; no code runs from here on.
    let found = unsafe { fields(array.as_ptr()) };
    let size = found.shape().iter().product::<isize>();
    let itemsize = size_of::<Ptr>();
    let whole = found.is_c_order(itemsize) || found.is_fortran_order(itemsize);
    if usize::try_from(size) != Ok(items.len()) || !whole {
        return Err(changed());
    }
    if found.is_c_order(itemsize) {
        // SAFETY: as below, and the places follow one another. Items lie elsewhere.
        let places = unsafe { std::slice::from_raw_parts_mut(found.data.cast(), items.len()) };
        places.swap_with_slice(items);
        return Ok(());
    }
    let mut index = vec![0; found.shape().len()];
    for item in items {
        let offset: isize = index.iter().zip(found.strides()).map(|(at, by)| at * by).sum();
        // SAFETY: without gaps in either order, and the index is within the extents: an object's
        // place. What was there is null or a reference that is dropped by the caller instead.
        unsafe { std::ptr::swap(found.data.byte_offset(offset).cast::<Ptr>(), item) };
        // The last index is the fastest.
        for (at, extent) in index.iter_mut().zip(found.shape()).rev() {
            *at += 1;
            if *at < *extent {
                break;
            }
            *at = 0;
        }
    }
    Ok(())
}

static FIELDS_FIT: PyOnceLock<bool> = PyOnceLock::new();

/// Whether arrays look as this crate believes, found out with one of them.
pub(super) fn fields_fit(py: Python<'_>) -> bool {
    *FIELDS_FIT.get_or_init(py, || probe(py).unwrap_or(false))
}

/// Whether that has been found out already, and they do. No code runs.
pub(super) fn are_known_to_fit(py: Python<'_>) -> bool {
    FIELDS_FIT.get(py) == Some(&true)
}

fn probe(py: Python<'_>) -> PyResult<bool> {
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("ones", ((4, 6), "<i2"))?.call_method0("transpose")?;
    // SAFETY: an array that is alive; were it laid out otherwise, it would still be this large.
    let found = unsafe { fields(array.as_ptr()) };
    let address: usize =
        array.getattr("__array_interface__")?.get_item("data")?.get_item(0)?.extract()?;
    let dtype = array.getattr("dtype")?;
    Ok(found.data.addr() == address
        && found.dimensions == 2
        && found.dtype == dtype.as_ptr()
        && array.getattr("base")?.as_ptr() == found.owner
        && !found.shape.is_null()
        && found.shape() == [6, 4]
        && found.strides() == [2, 12])
}
