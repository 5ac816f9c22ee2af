//! Nothing but dependencies: one choice of features for all of our artifacts.
//!
//! The Python module, the HDF5 connector, the daemon and the command are built one after the other,
//! each by a call of cargo of its own. Cargo would choose the features of, say, `arrow-array` for
//! each alone, and so compile Arrow and all under it three times. What imports this crate has the
//! same choice as all others, and the second build finds what the first has made. What an artifact
//! does not call the linker leaves out. The daemon does without the feature `arrow`: built alone,
//! as for Spark, it needs none of it.

#![forbid(unsafe_code)]
