//! What callbacks do with datasets of ours besides reading and writing them.

pub(crate) mod adopting;
pub(crate) mod attribute_mirror;
pub(crate) mod chunks;
pub(crate) mod copying;
pub(crate) mod creating;
pub(crate) mod explaining;
pub(crate) mod growing;
pub(crate) mod mappings;
pub(crate) mod pointing;
pub(crate) mod unused;
pub(crate) mod virtuals;
