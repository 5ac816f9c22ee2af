//! Columns of dictionaries, at any depth: their rows are moved as codes, plain integers, of one
//! dictionary for the whole table.
//!
//! ```text
//!   batch: codes, dictionary ─┐                                 ┌─ partition: codes, and the whole
//!   batch: codes, dictionary ─┴─► codes ─► sorted, spilled ─► ──┤  dictionary, or what of it the
//!                 Unifier         one dictionary, in memory     └─ partition uses
//! ```
//!
//! So a dictionary is not written into every block of a scratch file, and the dictionaries of many
//! batches do not add up until their codes do not fit the type. Where they do not fit, the type of
//! the codes becomes a wider one. Batches that share one dictionary cost nothing.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, UInt32Array, downcast_integer, new_empty_array, new_null_array,
};
use arrow_array::{DictionaryArray, PrimitiveArray};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::take;

use crate::error::{Error, Result};
use crate::nested::{Leaves, has, rebuild};

/// Makes one dictionary of those of many batches, for each place in a schema that has any.
#[derive(Debug)]
pub(crate) struct Unifier {
    schema: SchemaRef,
    columns: Vec<Vec<UnifiedDictionary>>,
}

/// The codes of values, by their bytes.
type CodeTable = HashMap<Box<[u8]>, u32>;

/// One dictionary that grows.
#[derive(Debug)]
struct UnifiedDictionary {
    index: DataType,
    /// All values, in the order of their codes.
    parts: Vec<ArrayRef>,
    count: usize,
    /// The values of the batch before, and their codes; `None`: their places.
    last: Option<(ArrayData, Option<Vec<u32>>)>,
    /// The code of each value, by its bytes; made when a second dictionary is met.
    known: Option<(RowConverter, CodeTable)>,
    /// About how many bytes were made for it: the first dictionary is its producer's.
    own_bytes: u64,
}

impl Unifier {
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let column = |field: &FieldRef| {
            if !has_dictionary(field.data_type()) {
                return Ok(Vec::new());
            }
            let mut found = DictionaryFinder(Vec::new());
            let empty = new_empty_array(field.data_type());
            rebuild(&empty, field.data_type(), &mut found)?;
            Ok(found.0)
        };
        // A type that cannot be rebuilt has no dictionary that could be.
        let column = |field| column(field).unwrap_or_else(|_: Error| Vec::new());
        Self { schema: schema.clone(), columns: schema.fields().iter().map(column).collect() }
    }

    /// A column's codes in the place of its dictionaries.
    pub(crate) fn codes(&mut self, at: usize, array: &ArrayRef) -> Result<ArrayRef> {
        let growing = &mut self.columns[at];
        if growing.is_empty() {
            return Ok(array.clone());
        }
        let codes = rebuild(array, array.data_type(), &mut DictionaryEncoder { growing, next: 0 });
        codes.map_err(|source| self.named(at, source))
    }

    /// About how many bytes it has made for dictionaries, and the column that has most of them.
    pub(crate) fn own_bytes(&self) -> (u64, &str) {
        let bytes =
            |column: &Vec<UnifiedDictionary>| column.iter().map(|one| one.own_bytes).sum::<u64>();
        let columns = self.columns.iter().zip(self.schema.fields());
        let most = columns.max_by_key(|(column, _)| bytes(column));
        (self.columns.iter().map(bytes).sum(), most.map_or("", |(_, field)| field.name()))
    }

    /// The dictionaries as they are now.
    pub(crate) fn dictionaries(&mut self) -> Result<Dictionaries> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for at in 0..self.columns.len() {
            let own = self.columns[at].iter_mut().map(UnifiedDictionary::dictionary);
            let own: Result<Vec<_>> = own.collect();
            columns.push(own.map_err(|source| self.named(at, source))?);
        }
        Ok(Dictionaries { columns })
    }

    fn named(&self, at: usize, source: Error) -> Error {
        match source {
            Error::Arrow(source) => {
                let column = self.schema.field(at).name().clone();
                Error::Dictionary { column, source }
            }
            other => other,
        }
    }
}

struct DictionaryFinder(Vec<UnifiedDictionary>);

impl Leaves for DictionaryFinder {
    fn takes(&self, shape: &DataType) -> bool {
        matches!(shape, DataType::Dictionary(..))
    }

    fn replace(&mut self, array: &ArrayRef, shape: &DataType) -> Result<ArrayRef> {
        if let DataType::Dictionary(index, values) = shape {
            self.0.push(UnifiedDictionary {
                index: (**index).clone(),
                parts: vec![new_empty_array(values)],
                count: 0,
                last: None,
                known: None,
                own_bytes: 0,
            });
        }
        Ok(array.clone())
    }
}

struct DictionaryEncoder<'a> {
    growing: &'a mut [UnifiedDictionary],
    next: usize,
}

impl Leaves for DictionaryEncoder<'_> {
    fn takes(&self, shape: &DataType) -> bool {
        matches!(shape, DataType::Dictionary(..))
    }

    fn replace(&mut self, array: &ArrayRef, _shape: &DataType) -> Result<ArrayRef> {
        self.next += 1;
        self.growing[self.next - 1].codes(array)
    }
}

impl UnifiedDictionary {
    fn codes(&mut self, array: &ArrayRef) -> Result<ArrayRef> {
        let array = array.as_any_dictionary();
        let values = array.values();
        if values.is_empty() {
            return Ok(new_null_array(&self.index(), array.len()));
        }
        self.learn(values)?;
        let keys = array.keys().slice(0, array.len());
        let Some((_, Some(codes))) = &self.last else { return Ok(cast(&keys, &self.index())?) };
        let codes = array.normalized_keys().into_iter().map(|key| codes[key]);
        let codes = UInt32Array::new(codes.collect(), keys.nulls().cloned());
        Ok(cast(&codes, &self.index())?)
    }

    /// Makes `last` that of these values.
    fn learn(&mut self, values: &ArrayRef) -> Result<()> {
        let data = values.to_data();
        if self.last.as_ref().is_some_and(|(last, _)| last.ptr_eq(&data)) {
            return Ok(());
        }
        if self.count == 0 {
            (self.parts, self.count) = (vec![values.clone()], values.len());
            self.last = Some((data, None));
            return Ok(());
        }
        let first = &self.parts[0];
        if first.len() >= data.len() && first.slice(0, data.len()).to_data() == data {
            self.last = Some((data, None));
            return Ok(());
        }
        let codes = self.add(values)?;
        self.last = Some((data, Some(codes)));
        Ok(())
    }

    /// The codes of values, which are added where they are new.
    fn add(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let field = || SortField::new(values.data_type().clone());
        if !RowConverter::supports_fields(&[field()]) {
            let first = self.count;
            self.push(values.clone(), 0);
            return Ok((first..self.count).map(|code| code as u32).collect());
        }
        if self.known.is_none() {
            // Bits, not an order: values that differ in any bit stay apart.
            let (converter, mut known) = (RowConverter::new(vec![field()])?, HashMap::new());
            let rows = converter.convert_columns(&[self.parts[0].clone()])?;
            for (code, row) in rows.iter().enumerate() {
                self.own_bytes += row.data().len() as u64;
                known.entry(row.data().into()).or_insert(code as u32);
            }
            self.known = Some((converter, known));
        }
        let Some((converter, known)) = &mut self.known else { return Ok(Vec::new()) };
        let rows = converter.convert_columns(std::slice::from_ref(values))?;
        let (mut codes, mut new, mut bytes) = (Vec::with_capacity(values.len()), Vec::new(), 0);
        for (at, row) in rows.iter().enumerate() {
            let next = (self.count + new.len()) as u32;
            let code = *known.entry(row.data().into()).or_insert(next);
            if code == next {
                new.push(at as u32);
                bytes += row.data().len() as u64;
            }
            codes.push(code);
        }
        if !new.is_empty() {
            self.push(take(values, &UInt32Array::from(new), None)?, bytes);
        }
        Ok(codes)
    }

    fn push(&mut self, values: ArrayRef, known_bytes: u64) {
        self.count += values.len();
        self.own_bytes += known_bytes + values.get_array_memory_size() as u64;
        self.parts.push(values);
    }

    fn index(&self) -> DataType {
        wide_enough(&self.index, self.count)
    }

    fn dictionary(&mut self) -> Result<Dictionary> {
        if self.parts.len() > 1 {
            let parts: Vec<&dyn Array> = self.parts.iter().map(|part| &**part).collect();
            self.parts = vec![concat(&parts)?];
        }
        Ok(Dictionary { index: self.index(), values: self.parts[0].clone() })
    }
}

/// The type of codes, or a wider one of the same sort if the number of values needs it.
fn wide_enough(index: &DataType, count: usize) -> DataType {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let (most, wider) = match index {
        Int8 => (1 << 7, Int16),
        UInt8 => (1 << 8, UInt16),
        Int16 => (1 << 15, Int32),
        UInt16 => (1 << 16, UInt32),
        Int32 => (1 << 31, Int64),
        UInt32 => (1 << 32, UInt64),
        other => return other.clone(),
    };
    if count <= most { index.clone() } else { wide_enough(&wider, count) }
}

/// A dictionary of the whole table.
#[derive(Clone, Debug)]
pub(crate) struct Dictionary {
    index: DataType,
    values: ArrayRef,
}

impl Dictionary {
    fn restore(&self, codes: &ArrayRef) -> Result<ArrayRef> {
        let codes = cast(codes, &self.index)?;
        macro_rules! of {
            ($index:ty) => {{
                let keys: PrimitiveArray<$index> = codes.as_primitive::<$index>().clone();
                Arc::new(DictionaryArray::try_new(keys, self.values.clone())?) as ArrayRef
            }};
        }
        Ok(downcast_integer! {
            codes.data_type() => (of),
            _ => codes
        })
    }

    fn bytes(&self) -> u64 {
        self.values.to_data().get_slice_memory_size().unwrap_or(0) as u64
    }
}

/// The dictionaries of a table whose batches have codes: for each column those at its depths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionaries {
    columns: Vec<Vec<Dictionary>>,
}

impl Dictionaries {
    /// Whether a column has any.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.columns.get(at).is_some_and(|column| !column.is_empty())
    }

    /// Whether any column has.
    pub(crate) fn any(&self) -> bool {
        (0..self.columns.len()).any(|at| self.has(at))
    }

    /// A column with its dictionaries; `shape` is its type with them.
    pub(crate) fn restore(
        &self,
        at: usize,
        codes: &ArrayRef,
        shape: &DataType,
    ) -> Result<ArrayRef> {
        self.replaced(at, codes, shape, |dictionary, codes| dictionary.restore(codes))
    }

    /// A column's codes, in the type that all of them have.
    pub(crate) fn settle(&self, at: usize, codes: &ArrayRef, shape: &DataType) -> Result<ArrayRef> {
        self.replaced(at, codes, shape, |dictionary, codes| Ok(cast(codes, &dictionary.index)?))
    }

    /// The schema of the same rows with codes, or with dictionaries whose codes all fit.
    pub(crate) fn schema(&self, schema: &Schema, codes: bool) -> Result<SchemaRef> {
        let mut fields = Vec::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().enumerate() {
            if !self.has(at) {
                fields.push(field.clone());
                continue;
            }
            let shape = field.data_type();
            let made = |dictionary: &Dictionary, _: &ArrayRef| {
                let empty = new_empty_array(&dictionary.index);
                if codes { Ok(empty) } else { dictionary.restore(&empty) }
            };
            let empty = self.replaced(at, &new_empty_array(shape), shape, made)?;
            let field = field.as_ref().clone().with_data_type(empty.data_type().clone());
            fields.push(Arc::new(field));
        }
        Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
    }

    /// The same, but of every dictionary that `is_long` names only the values that these codes
    /// use, in their order; the codes become those of what is left.
    pub(crate) fn narrowed(
        &self,
        at: usize,
        shape: &DataType,
        arrays: &mut [ArrayRef],
        is_long: impl Fn(u64) -> bool,
    ) -> Result<Self> {
        let mut narrowed = self.clone();
        for (depth, dictionary) in self.columns[at].iter().enumerate() {
            if !is_long(dictionary.bytes()) {
                continue;
            }
            let mut used = vec![false; dictionary.values.len()];
            for array in arrays.iter() {
                self.at_depth(at, depth, array, shape, |codes| {
                    each_code(codes, |code| used[code as usize] = true)?;
                    Ok(codes.clone())
                })?;
            }
            let kept: Vec<u32> =
                (0..used.len() as u32).filter(|code| used[*code as usize]).collect();
            let mut places = vec![0; used.len()];
            kept.iter().zip(0..).for_each(|(code, place)| places[*code as usize] = place);
            for array in arrays.iter_mut() {
                *array = self.at_depth(at, depth, array, shape, |codes| {
                    let plain = cast(codes, &DataType::UInt32)?;
                    let plain = plain.as_primitive::<UInt32Type>();
                    // What lies under a missing value says nothing.
                    let place = |code: u32| places.get(code as usize).copied().unwrap_or(0);
                    Ok(cast(&plain.unary::<_, UInt32Type>(place), codes.data_type())?)
                })?;
            }
            narrowed.columns[at][depth].values =
                take(&dictionary.values, &UInt32Array::from(kept), None)?;
        }
        Ok(narrowed)
    }

    fn at_depth(
        &self,
        at: usize,
        depth: usize,
        array: &ArrayRef,
        shape: &DataType,
        mut change: impl FnMut(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        let mut next = 0;
        self.replaced(at, array, shape, |_, codes| {
            next += 1;
            if next - 1 == depth { change(codes) } else { Ok(codes.clone()) }
        })
    }

    fn replaced(
        &self,
        at: usize,
        array: &ArrayRef,
        shape: &DataType,
        make: impl FnMut(&Dictionary, &ArrayRef) -> Result<ArrayRef>,
    ) -> Result<ArrayRef> {
        if !self.has(at) {
            return Ok(array.clone());
        }
        rebuild(
            array,
            shape,
            &mut DictionaryReplacer { dictionaries: self.columns[at].iter(), make },
        )
    }
}

fn each_code(codes: &ArrayRef, mut see: impl FnMut(u32)) -> Result<()> {
    let plain = cast(codes, &DataType::UInt32)?;
    plain.as_primitive::<UInt32Type>().iter().flatten().for_each(&mut see);
    Ok(())
}

struct DictionaryReplacer<'a, F> {
    dictionaries: std::slice::Iter<'a, Dictionary>,
    make: F,
}

impl<F: FnMut(&Dictionary, &ArrayRef) -> Result<ArrayRef>> Leaves for DictionaryReplacer<'_, F> {
    fn takes(&self, shape: &DataType) -> bool {
        matches!(shape, DataType::Dictionary(..))
    }

    fn replace(&mut self, array: &ArrayRef, _shape: &DataType) -> Result<ArrayRef> {
        match self.dictionaries.next() {
            Some(dictionary) => (self.make)(dictionary, array),
            None => Ok(array.clone()),
        }
    }
}

/// Whether a type has a dictionary at any depth.
pub(crate) fn has_dictionary(shape: &DataType) -> bool {
    has(shape, &DictionaryFinder(Vec::new()))
}
