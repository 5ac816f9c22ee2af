//! The numbers of the format, each declared once. `spec/objects.md` defines them.

/// The type ids of slots: which child of the union a slot's value is in.
pub mod slot {
    /// None.
    pub const NULL: u8 = 0;
    /// A boolean.
    pub const BOOL: u8 = 1;
    /// An integer of 64 bits.
    pub const INT: u8 = 2;
    /// A float of 64 bits.
    pub const FLOAT: u8 = 3;
    /// An entry of strs.
    pub const STR: u8 = 4;
    /// An entry of bins.
    pub const BYTES: u8 = 5;
    /// The node that this slot owns.
    pub const NODE: u8 = 6;
    /// A node that something else owns.
    pub const REF: u8 = 7;
    /// An entry of tensors.
    pub const TENSOR: u8 = 8;
    /// An entry of exts.
    pub const EXT: u8 = 9;
    /// How many there are.
    pub const COUNT: usize = 10;
}

/// Where the values of a run lie.
pub mod elem {
    /// None, each; takes zeros of bits.
    pub const NONE: u8 = 0;
    /// Booleans.
    pub const BITS: u8 = 1;
    /// Integers of 32 bits.
    pub const I32: u8 = 2;
    /// Integers of 64 bits.
    pub const I64: u8 = 3;
    /// Floats of 64 bits.
    pub const F64: u8 = 4;
    /// Consecutive strings.
    pub const STRS: u8 = 5;
    /// References to strings.
    pub const REFS: u8 = 6;
    /// Consecutive byte strings.
    pub const BINS: u8 = 7;
    /// Consecutive nodes.
    pub const NODES: u8 = 8;
    /// Consecutive slots.
    pub const SLOTS: u8 = 9;
    /// The rows of one row node.
    pub const ROWS: u8 = 10;
    /// Consecutive tensors.
    pub const TENSORS: u8 = 11;
    /// Consecutive extensions.
    pub const EXTS: u8 = 12;
}

/// Kinds of nodes.
pub mod kind {
    /// A list.
    pub const LIST: u8 = 0;
    /// A tuple.
    pub const TUPLE: u8 = 1;
    /// A dict.
    pub const DICT: u8 = 2;
    /// A set.
    pub const SET: u8 = 3;
    /// A frozenset.
    pub const FROZENSET: u8 = 4;
    /// Dicts with the same keys, by column.
    pub const DICT_ROWS: u8 = 5;
    /// Tuples of the same length, by column.
    pub const TUPLE_ROWS: u8 = 6;
    /// Objects of the same class, by column.
    pub const OBJECT_ROWS: u8 = 7;
    /// One column of rows.
    pub const FIELD: u8 = 8;
    /// An object of a class.
    pub const OBJECT: u8 = 9;
    /// A NumPy array of objects.
    pub const ARRAY: u8 = 10;
}

/// How a class is named.
pub mod source {
    /// By the specification.
    pub const SPECIFIED: u8 = 0;
    /// By an id that both sides registered.
    pub const REGISTERED: u8 = 1;
    /// By where it is imported from.
    pub const IMPORTABLE: u8 = 2;
    /// By a pickle of it.
    pub const PICKLED: u8 = 3;
}

/// How an object is made of its class and its parts.
pub mod make {
    /// Without a constructor; the parts are attributes.
    pub const ATTRIBUTES: u8 = 0;
    /// By the registered deserializer; the part is the state.
    pub const STATE: u8 = 1;
    /// By calling it.
    pub const CALL: u8 = 2;
    /// By its `__new__`.
    pub const NEW: u8 = 3;
    /// By its `__new__`, with keyword arguments.
    pub const NEW_EX: u8 = 4;
    /// It is what the name stands for.
    pub const VALUE: u8 = 5;
}

/// Kinds of extensions.
pub mod ext {
    /// An integer of any size.
    pub const INT: u8 = 0;
    /// A complex number.
    pub const COMPLEX: u8 = 1;
    /// A string with surrogates.
    pub const SURROGATES: u8 = 2;
    /// A long string, in the heap.
    pub const LONG_STR: u8 = 3;
    /// Long bytes, in the heap.
    pub const LONG_BYTES: u8 = 4;
    /// A bytearray.
    pub const BYTEARRAY: u8 = 5;
    /// A long bytearray, in the heap.
    pub const LONG_BYTEARRAY: u8 = 6;
    /// A date.
    pub const DATE: u8 = 7;
    /// A date with a time.
    pub const DATETIME: u8 = 8;
    /// A time.
    pub const TIME: u8 = 9;
    /// A span of time.
    pub const TIMEDELTA: u8 = 10;
    /// A time zone.
    pub const TZINFO: u8 = 11;
    /// A decimal number.
    pub const DECIMAL: u8 = 12;
    /// A universally unique id.
    pub const UUID: u8 = 13;
    /// A path of a file system.
    pub const PATH: u8 = 14;
    /// Ellipsis and NotImplemented.
    pub const SINGLETON: u8 = 15;
    /// A NumPy scalar.
    pub const SCALAR: u8 = 16;
    /// A NumPy element type.
    pub const DTYPE: u8 = 17;
    /// A data type of Python.
    pub const TYPE: u8 = 18;
    /// Something that is imported.
    pub const GLOBAL: u8 = 19;
    /// A pickle of one object.
    pub const PICKLE: u8 = 20;
    /// A pickle that cloudpickle made.
    pub const CLOUDPICKLE: u8 = 21;
    /// Arrow data.
    pub const ARROW: u8 = 22;
    /// How many there are.
    pub const COUNT: u8 = 23;
}

/// Kinds of tensors.
pub mod tensor {
    /// A NumPy array.
    pub const NUMPY: u8 = 0;
    /// A memoryview.
    pub const MEMORYVIEW: u8 = 1;
    /// The shape of an array of objects.
    pub const OBJECTS: u8 = 2;
}

/// The limits of an object.
pub mod limit {
    /// Entries of a table, and bytes of one of its strings.
    pub const ENTRIES_MAX: u64 = i32::MAX as u64;
    /// Bytes of the heap.
    pub const HEAP_BYTES_MAX: u64 = 1 << 56;
    /// Fields of a class.
    pub const FIELDS_MAX: usize = 1024;
    /// Fields of rows.
    pub const ROW_FIELDS_MAX: usize = 64;
    /// Dimensions of a tensor.
    pub const DIMENSIONS_MAX: usize = 64;
    /// Bytes of a class's name.
    pub const NAME_BYTES_MAX: usize = 4096;
    /// Bytes of the text of an element type.
    pub const DTYPE_BYTES_MAX: usize = 65_536;
    /// Strings from this length on lie in the heap.
    pub const LONG_STR_BYTES: usize = 65_536;
    /// Byte strings from this length on lie in the heap.
    pub const LONG_BYTES: usize = 4096;
    /// The writer takes the small form up to this many bytes.
    pub const SMALL_FORM_BYTES_MAX: u64 = 16_384;
    /// Rows are columns from this many on.
    pub const ROWS_MIN: usize = 8;
}
