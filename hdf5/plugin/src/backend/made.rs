//! The outcome of making the data of a dataset.

use std::sync::Arc;

use plasmon_hdf5_model::Place;

use crate::data::Data;
use crate::data::source::Source;

/// Why no data can be made: the file was not learned from when it was opened.
pub(super) const UNKNOWN: &str = "the folder of the file's data is unknown";

/// The data of a new dataset. It reads as zeros.
pub(crate) struct NewData {
    /// For the skeleton.
    pub(crate) place: Place,
    pub(crate) source: Source,
    pub(crate) data: Arc<dyn Data>,
    /// Where the first column begins.
    pub(crate) body_offset: u64,
    /// Whether HDF5 without the plugin can read the bytes of a single column.
    pub(crate) plain: bool,
}
