// The values that hold no others: strings, byte strings, tensors, extensions, classes.

import { broken } from './check.js';
import { Scalar, Tensor, integer } from './tensors.js';
import * as values from './values.js';

const { PloError } = values;
const DIMENSIONS_MAX = 64;
const SECONDS_MAX = 253_402_300_799n;
const SECONDS_MIN = -62_135_596_800n;
const DAY_SECONDS = 86_400n;
const MICROS = 1_000_000n;
const SOURCES = ['specified', 'registered', 'importable', 'pickled'];
const MAKES = ['attributes', 'state', 'call', 'new', 'new_ex', 'value'];

// A byte order mark at the start of a string is part of it.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function text(bytes) {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new PloError('the object is broken: a string that is not UTF-8');
  }
}

function parts(offsets, bytes) {
  return Array.from({ length: Math.max(0, offsets.length - 1) }, (_, at) =>
    bytes.subarray(offsets[at], offsets[at + 1]));
}

function viewOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** UTF-8 that may encode surrogates, which strings here consist of anyway. */
function surrogates(bytes) {
  let string = '';
  for (let at = 0; at < bytes.length;) {
    const lead = bytes[at];
    const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    let code = length === 1 ? lead : lead & (0x7f >> length);
    for (let more = 1; more < length; more += 1) {
      if ((bytes[at + more] & 0xc0) !== 0x80) {
        throw new PloError(
          'the object is broken: a string that is not UTF-8, even with surrogates',
        );
      }
      code = (code << 6) | (bytes[at + more] & 0x3f);
    }
    if ((lead >= 0x80 && lead < 0xc2) || code > 0x10ffff) {
      throw new PloError('the object is broken: a string that is not UTF-8, even with surrogates');
    }
    string += String.fromCodePoint(code);
    at += length;
  }
  return string;
}

function bigInteger(bytes) {
  let digits = '0x0';
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    digits += bytes[at].toString(16).padStart(2, '0');
  }
  return BigInt.asIntN(8 * bytes.length, BigInt(digits));
}

/** Data that must have a length; a view of it. */
function exactly(length, data) {
  if (data.length !== length) {
    throw new PloError(`the object is broken: ${data.length} bytes instead of ${length}`);
  }
  return viewOf(data);
}

function zone(data) {
  const kind = data[0];
  const rest = data.subarray(1);
  if (kind === 0 && rest.length === 0) {
    return null;
  }
  if (kind === 1 && rest.length === 0) {
    return new values.Zone('utc', 0n, null, null);
  }
  if (kind === 2 && rest.length >= 8) {
    const offset = viewOf(rest).getBigInt64(0, true);
    if (offset <= -DAY_SECONDS * MICROS || offset >= DAY_SECONDS * MICROS) {
      throw new PloError(`the object is broken: a time zone ${offset} microseconds from UTC`);
    }
    const name = text(rest.subarray(8));
    return new values.Zone('fixed', offset, name === '' ? null : name, null);
  }
  if (kind === 3) {
    return new values.Zone('iana', null, null, text(rest));
  }
  throw new PloError(`the object is broken: a time zone of kind ${kind}`);
}

function tzinfo(data) {
  const found = zone(data);
  if (found === null) {
    throw new PloError('the object is broken: an invalid time zone');
  }
  return found;
}

function clock(Class, data, least, most) {
  const view = exactly(9, data.subarray(0, 9));
  const micros = view.getBigInt64(0, true);
  if (micros < least * MICROS || micros >= (most + 1n) * MICROS || data[8] > 1) {
    throw new PloError(`the object is broken: a time of ${micros} microseconds`);
  }
  return new Class(micros, data[8], zone(data.subarray(9)));
}

function date(data) {
  const days = exactly(4, data).getInt32(0, true);
  if (BigInt(days) * DAY_SECONDS < SECONDS_MIN || BigInt(days) * DAY_SECONDS > SECONDS_MAX) {
    throw new PloError(`the object is broken: a date of ${days} days`);
  }
  return new values.PlainDate(days);
}

function timeDelta(data) {
  const view = exactly(12, data);
  const fields = [0, 4, 8].map((at) => view.getInt32(at, true));
  return new values.TimeDelta(...fields);
}

function oneOf(names, number) {
  if (names[number] === undefined) {
    throw new PloError(`the object is broken: ${number} is not one of ${names}`);
  }
  return names[number];
}

const IN_HEAP = [3, 4, 6, 22];
const PICKLES = [20, 21];

/** What becomes of an extension's data (without lengths), its heap entries, and the dtypes. */
const READERS = [
  (data) => integer(bigInteger(data)),
  (data) => {
    const view = exactly(16, data);
    return new values.Complex(view.getFloat64(0, true), view.getFloat64(8, true));
  },
  (data) => surrogates(data),
  (data, [entry]) => text(entry),
  (data, [entry]) => entry,
  (data) => new values.ByteArray(data),
  (data, [entry]) => new values.ByteArray(entry),
  date,
  (data) => clock(values.DateTime, data, SECONDS_MIN, SECONDS_MAX),
  (data) => clock(values.Time, data, 0n, DAY_SECONDS - 1n),
  timeDelta,
  tzinfo,
  (data) => new values.Decimal(text(data)),
  (data) => new values.Uuid(new Uint8Array(exactly(16, data).buffer, data.byteOffset, 16)),
  (data) => new values.Path(oneOf(['path', 'posix', 'windows'], data[0]), data.subarray(1)),
  (data) => new values.Singleton(oneOf(['Ellipsis', 'NotImplemented'], data[0])),
  (data, entries, dtypes) => {
    const dtype = oneOf(dtypes, exactly(4, data.subarray(0, 4)).getInt32(0, true));
    exactly(dtype.itemsize, data.subarray(4));
    return new Scalar(dtype, data.subarray(4));
  },
  (data, entries, dtypes) => oneOf(dtypes, exactly(4, data).getInt32(0, true)),
  (data) => new values.Global(text(data)),
  (data) => new values.Global(text(data)),
  (data, entries) => new values.Pickle('pickle', data, entries),
  (data, entries) => new values.Pickle('cloudpickle', data, entries),
  (data, [entry]) => new values.ArrowData(data[0], text(data.subarray(1)), entry),
];

/** The values without parts, each made once: what is mentioned twice stays one. */
export class Leaves {
  constructor(tables) {
    this.tables = tables;
    this.heapBefore = -1;
    this.dtypes = parts(tables.dtypeOffsets, tables.dtypeBytes).map((part, at) => {
      if (tables.dtypeItemsize[at] < 0) {
        throw broken('an element type of a negative size', at);
      }
      return new values.Dtype(text(part), tables.dtypeItemsize[at]);
    });
    this.strs = parts(tables.strOffsets, tables.strBytes).map(text);
    this.bins = parts(tables.binOffsets, tables.binBytes);
    this.tensors = Array.from({ length: tables.sizes.tensors }, (_, at) => this.tensor(at));
    this.exts = parts(tables.dataOffsets, tables.dataBytes).map((data, at) => this.ext(at, data));
    const fields = parts(tables.fieldNameOffsets, tables.fieldNameBytes).map(text);
    const names = parts(tables.nameOffsets, tables.nameBytes).map(text);
    this.classes = names.map((name, at) => this.class(at, name, fields));
  }

  /** The bytes of a heap entry. */
  entry(index) {
    const { heap, heapOffsets, sizes } = this.tables;
    if (!(index >= 0 && index < sizes.heap)) {
      throw broken('a heap entry that is not there', index);
    }
    return heap.subarray(Number(heapOffsets[index]), Number(heapOffsets[index + 1]));
  }

  tensor(index) {
    const { tables } = this;
    const list = (column, offsets) =>
      Array.from(column.subarray(offsets[index], offsets[index + 1]), (n) => exact(n, index));
    const shape = list(tables.shape, tables.shapeOffsets);
    let strides = list(tables.strides, tables.strideOffsets);
    const kind = oneOf(['numpy', 'memoryview', 'shape'], tables.tensorKind[index]);
    const dtype = oneOf(this.dtypes, tables.tensorDtype[index]);
    if (shape.length > DIMENSIONS_MAX || shape.some((extent) => extent < 0)) {
      throw broken('a tensor with too many dimensions, or a negative one', index);
    }
    if (strides.length === 0) {
      strides = shape.map((_, at) =>
        shape.slice(at + 1).reduce((product, n) => product * n, dtype.itemsize));
    }
    const isEmpty = shape.includes(0) || kind === 'shape';
    const offset = exact(tables.tensorOffset[index], index);
    const heap = tables.tensorHeap[index];
    if (kind === 'shape' && heap !== -1) {
      throw broken('the shape of an array of objects with bytes', index);
    }
    const memory = heap === -1 ? new Uint8Array(0) : this.entry(heap);
    const reach = isEmpty ? [] : shape.map((extent, at) => (extent - 1) * strides[at]);
    const sum = (numbers) => numbers.reduce((total, number) => total + number, offset);
    const first = sum(reach.filter((n) => n < 0));
    const end = sum(reach.filter((n) => n > 0)) + (isEmpty ? 0 : dtype.itemsize);
    // What is past the exact integers is far outside, too.
    if (shape.length !== strides.length || !(first >= 0 && end <= memory.length)) {
      throw broken('a tensor that reaches outside of its heap entry', index);
    }
    return new Tensor(kind, dtype, shape, strides, memory, offset);
  }

  class(index, name, fields) {
    const { tables } = this;
    const source = SOURCES[tables.classSource[index]];
    const pickle = source === 'pickled' ? this.exts[tables.classExt[index]] : null;
    if (pickle !== null && !(pickle instanceof values.Pickle)) {
      throw broken('a class that is pickled as something else', index);
    }
    const own = fields.slice(tables.fieldOffsets[index], tables.fieldOffsets[index + 1]);
    const version = tables.classVersion[index];
    const make = MAKES[tables.classMake[index]];
    return new values.PloClass(source, make, name, version, own, pickle);
  }

  ext(index, data) {
    const { tables } = this;
    const kind = tables.extKind[index];
    if (kind >= READERS.length) {
      throw broken(`an extension of the unknown kind ${kind}`, index);
    }
    const [start, end] = [tables.heapsOffsets[index], tables.heapsOffsets[index + 1]];
    const heaps = Array.from(tables.heaps.subarray(start, end));
    const wanted = IN_HEAP.includes(kind) ? 1 : 0;
    if ((!PICKLES.includes(kind) && heaps.length !== wanted) || data.length < 8 * heaps.length) {
      throw broken('an extension with another number of heap entries', index);
    }
    const lengths = viewOf(data);
    const entries = heaps.map((heap, at) => {
      const entry = this.entry(heap);
      const length = lengths.getBigUint64(8 * at, true);
      const taken = ((length + 63n) / 64n) * 64n;
      if (heap <= this.heapBefore || taken !== BigInt(entry.length)) {
        throw broken('heap entries of extensions that do not rise, or of another length', index);
      }
      this.heapBefore = heap;
      return entry.subarray(0, Number(length));
    });
    return READERS[kind](data.subarray(8 * heaps.length), entries, this.dtypes);
  }
}

/** A 64-bit integer as a number; those that are not exact are past what an array can have. */
function exact(value, index) {
  const number = integer(value);
  if (typeof number === 'bigint') {
    throw broken('a tensor larger than any memory', index);
  }
  return number;
}
