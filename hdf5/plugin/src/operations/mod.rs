//! Operations on datasets of ours besides reading and writing them.

pub(crate) mod attribute_mirror;
pub(crate) mod chunks;
pub(crate) mod copies;
pub(crate) mod creation;
pub(crate) mod extent;
pub(crate) mod first_link;
pub(crate) mod inspect;
pub(crate) mod mappings;
pub(crate) mod references;
pub(crate) mod unlinked_data;
pub(crate) mod virtuals;
