//! The keys of a dictionary that grows, which holds each value once.
//!
//! Arrays that are appended have dictionaries of their own. The values that they use are looked up
//! by their row encoding, which is equal where values are, and appended if they are new; keys are
//! written again. Keys of values that were not used before an append failed are forgotten with it.
//! The values themselves are a node beside the keys, which grows by one value for each new key.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, downcast_dictionary_array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;

use crate::error::{Error, Result};
use crate::memory::{Bytes, Source};

/// The growing keys of a dictionary array, without its validity, and which value has which.
#[derive(Debug)]
pub(crate) struct DictionaryKeys {
    pub(crate) bytes: Bytes,
    key_type: DataType,
    width: usize,
    keys_max: u64,
    ordered: bool,
    rows: RowConverter,
    known: HashMap<Box<[u8]>, u64>,
    /// The dictionary of the array before, and which keys its values have here.
    last: Option<(ArrayRef, Vec<Option<u64>>)>,
}

impl DictionaryKeys {
    pub(crate) fn new(
        source: &Source,
        (key_type, values): (&DataType, &DataType),
        ordered: bool,
    ) -> Result<Self> {
        let whole = DataType::Dictionary(Box::new(key_type.clone()), Box::new(values.clone()));
        let unsupported = || Error::Unsupported(whole.clone());
        let (width, bits) = match key_type {
            DataType::Int8 => (1, 7),
            DataType::UInt8 => (1, 8),
            DataType::Int16 => (2, 15),
            DataType::UInt16 => (2, 16),
            DataType::Int32 => (4, 31),
            DataType::UInt32 => (4, 32),
            DataType::Int64 | DataType::UInt64 => (8, 63),
            _ => return Err(unsupported()),
        };
        if values.is_nested() || matches!(values, DataType::Dictionary(..)) {
            return Err(unsupported());
        }
        let rows = RowConverter::new(vec![SortField::new(values.clone())])?;
        Ok(Self {
            bytes: Bytes::new(source),
            key_type: key_type.clone(),
            width,
            keys_max: (1 << bits) - 1,
            ordered,
            rows,
            known: HashMap::new(),
            last: None,
        })
    }

    /// Appends the keys of an array; `append_value` appends a value that is new, the only one of
    /// the array that it is given.
    pub(crate) fn append(
        &mut self,
        array: &dyn Array,
        ordered: bool,
        mut append_value: impl FnMut(&dyn Array) -> Result<()>,
    ) -> Result<()> {
        let (values, keys): (ArrayRef, Vec<Option<usize>>) = downcast_dictionary_array!(
            array => {
                let keys = array.keys_iter().collect();
                (Arc::clone(array.values()), keys)
            },
            other => return Err(Error::mismatch(&self.key_type, other))
        );
        let mut here = match self.last.take() {
            Some((last, here)) if same_array(&last, &values) => here,
            _ => vec![None; values.len()],
        };
        let rows = self.rows.convert_columns(&[Arc::clone(&values)])?;
        if self.ordered && ordered {
            for (at, key) in here.iter_mut().enumerate() {
                let append = || append_value(&*values.slice(at, 1));
                *key = Some(self.key_of(rows.row(at).as_ref(), append)?);
            }
            if !here.is_sorted() {
                let text = "the values of an ordered dictionary come in another order than before";
                return Err(Error::Shape(text.to_owned()));
            }
        }
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(match key {
                None => 0,
                Some(key) => match here[key] {
                    Some(key) => key,
                    None => {
                        let append = || append_value(&*values.slice(key, 1));
                        let new = self.key_of(rows.row(key).as_ref(), append)?;
                        *here[key].insert(new)
                    }
                },
            });
        }
        self.push_keys(&found)?;
        self.last = Some((values, here));
        Ok(())
    }

    /// The key of a value, which is appended if it is new.
    fn key_of(&mut self, row: &[u8], append: impl FnOnce() -> Result<()>) -> Result<u64> {
        if let Some(key) = self.known.get(row) {
            return Ok(*key);
        }
        // Every value is known, and the keys are their numbers.
        let key = self.known.len() as u64;
        if key > self.keys_max {
            let data_type = self.key_type.clone();
            return Err(Error::Overflow { what: "the keys", data_type, instead: "wider keys" });
        }
        append()?;
        self.known.insert(row.into(), key);
        Ok(key)
    }

    fn push_keys(&mut self, keys: &[u64]) -> Result<()> {
        let width = self.width;
        self.bytes.extend(keys.len() * width, |into| {
            for (place, key) in into.chunks_exact_mut(width).zip(keys) {
                place.copy_from_slice(&key.to_le_bytes()[..width]);
            }
        })
    }

    pub(crate) fn append_nulls(&mut self, count: usize) -> Result<()> {
        self.bytes.extend(self.width * count, |into| into.fill(0))
    }

    /// Takes back what follows `length` keys, and what is known of all but the first values.
    pub(crate) fn rewind(&mut self, length: usize, values: usize) {
        self.bytes.truncate(length * self.width);
        self.known.retain(|_, key| *key < values as u64);
        self.last = None;
    }
}

/// Whether two arrays are the same memory.
fn same_array(one: &ArrayRef, other: &ArrayRef) -> bool {
    Arc::ptr_eq(one, other) || one.to_data().ptr_eq(&other.to_data())
}
