/**
 * What a value of Python becomes:
 *
 * | Python | here |
 * |---|---|
 * | None, bool, float, str | null, boolean, number, string |
 * | int | number where that is exact, else bigint |
 * | bytes, bytearray | Uint8Array (a view of the data), {@link ByteArray} |
 * | list, tuple | Array, {@link Tuple} |
 * | dict | Map |
 * | set, frozenset | Set, {@link FrozenSet} |
 * | NumPy array, memoryview; scalar; dtype | {@link Tensor}; {@link Scalar}; {@link Dtype} |
 * | NumPy array of objects | {@link ObjectArray} |
 * | objects of classes | {@link PloObject} |
 * | date, datetime, time, timedelta, tzinfo | {@link PlainDate}, {@link DateTime}, {@link Time}, ... |
 * | complex, Decimal, UUID, paths, Ellipsis | {@link Complex}, {@link Decimal}, {@link Uuid}, ... |
 * | Arrow tables, DataFrames | {@link ArrowData} |
 * | types, functions and classes | {@link Global} |
 * | what is pickled | {@link Pickle} |
 *
 * What is shared in Python is one object here, cycles included; depth has no limit. A key of a dict
 * (or an item of a set) that JavaScript takes for an earlier one, such as a second NaN, is boxed:
 * `Object(key)`.
 */
export type PloValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PloValue[]
  | Map<PloValue, PloValue>
  | Set<PloValue>
  | Tensor
  | Scalar
  | Dtype
  | ObjectArray
  | PloObject
  | PlainDate
  | DateTime
  | Time
  | TimeDelta
  | Zone
  | Complex
  | Decimal
  | Uuid
  | Path
  | Singleton
  | ArrowData
  | Global
  | Pickle;

export interface ReadOptions {
  /** Whether every int becomes a bigint, so that ints and floats can be told apart. */
  bigint?: boolean;
}

/**
 * The value of the object at the front of `data`. Bytes and tensors are views of it.
 *
 * @throws {PloError} when a rule of the format is broken
 */
export function read(data: ArrayBuffer | ArrayBufferView, options?: ReadOptions): PloValue;

/** The bytes are not an object in the PLO format, or break one of its rules. */
export class PloError extends Error {
  /** Which, with the names of section 8 of the specification. */
  readonly code: 'not_an_object' | 'truncated' | 'broken';
}

/** A Python tuple: an array that must not be changed. */
export class Tuple extends Array<PloValue> {}

/** A Python frozenset: a set that must not be changed. */
export class FrozenSet extends Set<PloValue> {}

/** A Python bytearray. */
export class ByteArray extends Uint8Array {}

/** A complex number. */
export class Complex {
  readonly re: number;
  readonly im: number;
}

/** A decimal number of any precision, as Python writes it. */
export class Decimal {
  readonly text: string;
  toString(): string;
}

/** A universally unique id of 16 bytes. */
export class Uuid {
  readonly bytes: Uint8Array;
  /** The usual text with four dashes. */
  toString(): string;
}

/** A path. Its bytes are what it is; they need not be UTF-8. */
export class Path {
  readonly kind: 'path' | 'posix' | 'windows';
  readonly bytes: Uint8Array;
  toString(): string;
}

/** A date. */
export class PlainDate {
  /** Days since 1970-01-01. */
  readonly days: number;
  /** The start of the day in UTC. */
  toDate(): Date;
  /** `2026-01-31`. */
  toString(): string;
}

/** A time zone. */
export class Zone {
  readonly kind: 'utc' | 'fixed' | 'iana';
  /** From UTC; null for `iana`. */
  readonly offsetMicros: bigint | null;
  /** The own name of a `fixed` one, null if it has none. */
  readonly name: string | null;
  /** The key of an `iana` one. */
  readonly key: string | null;
  /** `Z`, `+01:00`, `[Europe/Berlin]`. */
  toString(): string;
}

/** A date with a time. */
export class DateTime {
  /** Since 1970-01-01T00:00 on its own clock. */
  readonly micros: bigint;
  /** 1: the second time that a clock which was set back shows this. */
  readonly fold: number;
  readonly zone: Zone | null;
  /** The moment. @throws {RangeError} where the offset from UTC isn't known: none, or `iana` */
  toDate(): Date;
  toString(): string;
}

/** A time of day. */
export class Time {
  /** Since midnight. */
  readonly micros: bigint;
  readonly fold: number;
  readonly zone: Zone | null;
  toString(): string;
}

/** A span of time, as Python keeps it: only the days can be negative. */
export class TimeDelta {
  readonly days: number;
  readonly seconds: number;
  readonly micros: number;
  /** All of it in microseconds. */
  toMicros(): bigint;
}

/** `Ellipsis` or `NotImplemented`. */
export class Singleton {
  readonly name: 'Ellipsis' | 'NotImplemented';
}

/** A NumPy element type. */
export class Dtype {
  /** NumPy's array-protocol text: `<f8`; JSON of `descr` for structured ones. */
  readonly text: string;
  readonly itemsize: number;
  toString(): string;
}

/**
 * One element of a tensor: a number, a boolean, a Complex, a string for `U`; NumPy's dates and spans
 * are their counts; whatever JavaScript has nothing for is its bytes.
 */
export type Element = number | bigint | boolean | string | Complex | Uint8Array;

/** Elements in arrays, one level for each dimension. */
export type Nested = Element | Nested[];

/** An array of any element type: `shape` and `strides` (in bytes) over shared memory. */
export class Tensor {
  /** The latter's element type is one letter of Python's `struct`. */
  readonly kind: 'numpy' | 'memoryview';
  readonly dtype: Dtype;
  readonly shape: number[];
  readonly strides: number[];
  readonly memory: Uint8Array;
  /** Where in `memory` the element at index 0 lies. */
  readonly offset: number;
  readonly size: number;
  readonly isContiguous: boolean;
  /** The element at an index for each dimension, none negative. */
  get(...index: number[]): Element;
  /** The offset in `memory` of every element in C order. */
  offsets(): Generator<number>;
  /** The elements in C order. */
  toFlatArray(): Element[];
  /** The elements in arrays, one level for each dimension. */
  toArray(): Nested;
  /** The bytes of the elements in C order: a view where they lie so, else a copy. */
  toBytes(): Uint8Array;
  /**
   * The elements in C order: a view where they lie so, else a copy.
   *
   * @throws {TypeError} where JavaScript has no such typed array
   */
  toTypedArray():
    | Int8Array
    | Int16Array
    | Int32Array
    | BigInt64Array
    | Uint8Array
    | Uint16Array
    | Uint32Array
    | BigUint64Array
    | Float32Array
    | Float64Array;
}

/** A NumPy scalar. */
export class Scalar {
  readonly dtype: Dtype;
  readonly bytes: Uint8Array;
  /** The value, as a tensor's element. */
  readonly value: Element;
  valueOf(): Element;
}

/** A NumPy array of objects, its items in C order. */
export class ObjectArray {
  readonly shape: number[];
  readonly items: PloValue[];
}

/** The class of an object. */
export class PloClass {
  /** How it is named. */
  readonly source: 'specified' | 'registered' | 'importable' | 'pickled';
  /** How its objects are made. */
  readonly make: 'attributes' | 'state' | 'call' | 'new' | 'new_ex' | 'value';
  readonly name: string;
  /** Of a registered class. */
  readonly version: number;
  /** The names of the attributes, when those are the parts. */
  readonly fields: string[];
  /** The class itself when it is pickled. */
  readonly pickle: Pickle | null;
}

/** An object of a class. */
export class PloObject {
  readonly cls: PloClass;
  /**
   * Its parts by name: the attributes, or `state`, or for an object that is made by a call `args`,
   * `kwargs`, `state`, `items`, `pairs` and `setter`, as `__reduce__` has them.
   */
  readonly fields: Map<string, PloValue>;
}

/** Something that has a name in Python: a type, a class, a function. */
export class Global {
  readonly name: string;
}

/** A pickle of one object that was not loaded, with its out-of-band buffers. */
export class Pickle {
  readonly kind: 'pickle' | 'cloudpickle';
  readonly data: Uint8Array;
  readonly buffers: Uint8Array[];
}

/** Arrow data. `kind` and `text` are those of docs/formats/values.md. */
export class ArrowData {
  readonly kind: number;
  readonly text: string;
  /** An IPC stream, for `tableFromIPC` of apache-arrow. */
  readonly stream: Uint8Array;
}
