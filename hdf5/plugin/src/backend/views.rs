//! Columns of data that others wrote; they can only be read.

use std::io;
use std::sync::Arc;

use plasmon_hdf5_model::{Columns, Table, ViewOf};
use plasmon_hdf5_store::views::{self, Column};

use crate::data::Data;

impl Data for Column {
    fn columns(&self) -> Columns<'_> {
        Self::columns(self)
    }

    fn describe(&self, _: &Table, _: &[(String, String)]) -> io::Result<()> {
        Ok(())
    }

    fn first_column(&self) -> io::Result<String> {
        Ok(self.name().to_owned())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn open(of: &ViewOf, column: &str, table: &Table) -> Result<Arc<dyn Data>, String> {
    let [only] = table.columns() else { return Err("a view has one column".to_owned()) };
    let bytes = table.elements() * only.bytes() as u64;
    let found = views::open(of, column, bytes).map_err(|error| error.to_string())?;
    Ok(Arc::new(found))
}
