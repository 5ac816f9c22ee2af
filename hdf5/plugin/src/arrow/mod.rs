//! Datasets whose data is Arrow: what their types and selections are, and how elements move.

pub(crate) mod array;
pub(crate) mod datatype;
pub(crate) mod eligibility;
pub(crate) mod members;
pub(crate) mod selection;
pub(crate) mod transfer;
