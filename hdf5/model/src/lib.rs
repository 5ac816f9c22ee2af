//! HDF5 datasets as Arrow data, without HDF5.
//!
//! ```text
//! x.h5                        the skeleton: groups, attributes, links, types; HDF5's own
//! x.h5.arrow/<group>/<name>.arrow   one Arrow IPC file per dataset (naming)
//!
//! dataset ─► Table (columns, rows) ─► Image (head, body, foot) ─► DataFile
//!                                                        transfer: runs of elements between
//!                                                        a DataFile and a program's memory
//! ```
//!
//! The body of a file is allocated when the dataset is made, with every buffer 64-byte aligned in
//! the file, and then written in place, as HDF5 writes its own: its readers see what was written
//! implicitly. Nothing here is kept in memory between two calls.

#![forbid(unsafe_code)]

mod bytes;
mod column;
mod contained_paths;
mod conversion;
mod data_id;
mod error;
mod file;
mod file_names;
mod folder;
mod home;
mod identity;
mod image;
mod layout;
mod manifest;
mod mapping;
mod marker;
mod memory;
mod records;
mod resizable;
mod run;
mod run_copy;
mod schema;
mod table;
mod transfer;
mod transpose;
mod written_chunks;

pub use bytes::{Bytes, Columns};
pub use column::{Base, Column, Number};
pub use contained_paths::open_regular;
pub use conversion::{Convert, NoConversion};
pub use data_id::Mark;
pub use error::TransferError;
pub use file::{
    DataFile, DataFolder, FileError, Note, copy_data, remove_file, rename_back, rename_data,
};
pub use file_names::{
    data_directory, is_object_of, is_unnamed, object_data, object_name, relative_path,
};
pub use folder::{clear, keep_only};
pub use home::{Hold, Home, draw, find_owner, owner};
pub use identity::Identity;
pub use image::{Image, Stream};
pub use manifest::{Entry, Manifest, Owner};
pub use mapping::{Blocks, SourceFolders, is_numbered, numbered};
pub use marker::{Marker, Place, ViewOf};
pub use memory::{Member, Memory, Records};
pub use run::Run;
pub use schema::ATTRIBUTE;
pub use table::Table;
pub use transfer::transfer;
pub use written_chunks::WrittenChunks;
