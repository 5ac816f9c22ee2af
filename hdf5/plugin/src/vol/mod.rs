//! The callbacks, one module for each class of the connector's table, which is in `class`.

pub(crate) mod attribute;
pub(crate) mod blob;
pub(crate) mod class;
pub(crate) mod close;
pub(crate) mod dataset;
pub(crate) mod datatype;
pub(crate) mod file;
pub(crate) mod forward;
pub(crate) mod group;
pub(crate) mod introspect;
pub(crate) mod link;
pub(crate) mod object;
pub(crate) mod request;
pub(crate) mod stub_connector;
pub(crate) mod token;
pub(crate) mod wrap;
