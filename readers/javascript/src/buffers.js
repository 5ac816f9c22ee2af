// From either form of an object to its tables: typed arrays over the same 53 buffers.
//
// apache-arrow reads the stream form. The small form is cut up here: all offsets follow from the
// sizes.

import { RecordBatchReader, Type } from 'apache-arrow';

import * as messages from './messages.js';
import { PloError } from './values.js';

const ENTRIES_MAX = 2 ** 31 - 1;
const SMALL_HEADER_BYTES = 16;
const HEAP_ALIGN = 64;
/** The field node of the slots of type null: the only one with nulls, and with nothing else. */
const NULL_NODE = 2;

/** The sizes in order. A walk through the columns meets them in this order, too. */
export const SIZES = (
  'slots null bool int float str bytes node ref tensor ext nodes i32 i64 f64 bits strs strsBytes '
  + 'refs bins binsBytes classes classNameBytes classFields classFieldBytes dtypes dtypeBytes '
  + 'tensors tensorShape tensorStrides exts extBytes extHeaps heap heapBytes'
).split(' ');

// How many bytes a buffer has: entries of a fixed size, bits, or offsets around entries.
const words = (Type) => (size) => [`${size}`, Type, (count) => count * Type.BYTES_PER_ELEMENT];
const u8 = words(Uint8Array);
const i8 = words(Int8Array);
const i32 = words(Int32Array);
const i64 = words(BigInt64Array);
const f64 = words(Float64Array);
const bits = (size) => [size, Uint8Array, (count) => Math.ceil(count / 8)];
const offsets = (size) => [size, Int32Array, (count) => (count ? 4 * (count + 1) : 0)];
const longOffsets = (size) => [size, BigInt64Array, (count) => (count ? 8 * (count + 1) : 0)];

/** The buffers of section 2 in order: under which name, the size that they follow from, how. */
const BUFFERS = Object.entries({
  slotType: i8('slots'), slotOffset: i32('slots'), bool: bits('bool'), int: i64('int'),
  float: f64('float'), str: i32('str'), bytes: i32('bytes'), node: i32('node'), ref: i32('ref'),
  tensor: i32('tensor'), ext: i32('ext'), nodeKind: u8('nodes'), nodeElem: u8('nodes'),
  nodeElem2: u8('nodes'), nodeStart: i32('nodes'), nodeLength: i32('nodes'),
  nodeStart2: i32('nodes'), i32: i32('i32'), i64: i64('i64'), f64: f64('f64'), bits: bits('bits'),
  strOffsets: offsets('strs'), strBytes: u8('strsBytes'), refs: i32('refs'),
  binOffsets: offsets('bins'), binBytes: u8('binsBytes'), classSource: u8('classes'),
  classMake: u8('classes'), nameOffsets: offsets('classes'), nameBytes: u8('classNameBytes'),
  classVersion: i32('classes'), fieldOffsets: offsets('classes'),
  fieldNameOffsets: offsets('classFields'), fieldNameBytes: u8('classFieldBytes'),
  classExt: i32('classes'), dtypeOffsets: offsets('dtypes'), dtypeBytes: u8('dtypeBytes'),
  dtypeItemsize: i32('dtypes'), tensorKind: u8('tensors'), tensorDtype: i32('tensors'),
  shapeOffsets: offsets('tensors'), shape: i64('tensorShape'), strideOffsets: offsets('tensors'),
  strides: i64('tensorStrides'), tensorHeap: i32('tensors'), tensorOffset: i64('tensors'),
  extKind: u8('exts'), dataOffsets: offsets('exts'), dataBytes: u8('extBytes'),
  heapsOffsets: offsets('exts'), heaps: i32('extHeaps'), heapOffsets: longOffsets('heap'),
  heap: u8('heapBytes'),
});

/** The tables of an object in small form. */
export function small(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < SMALL_HEADER_BYTES) {
    throw PloError.cutOff(SMALL_HEADER_BYTES, bytes.length);
  }
  const length = view.getUint32(4, true);
  const present = view.getBigUint64(8, true);
  if (present >> BigInt(SIZES.length) !== 0n) {
    throw new PloError('the object has sizes that are not known');
  }
  const given = [...present.toString(2)].filter((bit) => bit === '1').length;
  const least = Math.max(length, SMALL_HEADER_BYTES + 4 * given);
  if (least > bytes.length) {
    throw PloError.cutOff(least, bytes.length);
  }
  const sizes = {};
  let end = SMALL_HEADER_BYTES;
  SIZES.forEach((name, number) => {
    sizes[name] = 0;
    if ((present >> BigInt(number)) & 1n) {
      sizes[name] = view.getUint32(end, true);
      end += 4;
      if (sizes[name] === 0) {
        throw new PloError(`${name} are 0 and marked as present`);
      }
    }
  });
  const tables = { sizes };
  checkSizes(sizes);
  end = roundUp(end, 8);
  for (const [name, [size, Typed, extent]] of BUFFERS) {
    const taken = extent(sizes[size]);
    end = roundUp(end, name === 'heap' && taken ? HEAP_ALIGN : 8);
    if (end + taken > length) {
      throw new PloError(`the object's length is ${length}, its parts have more`);
    }
    tables[name] = new Typed(bytes.buffer, bytes.byteOffset + end, taken / Typed.BYTES_PER_ELEMENT);
    end += taken;
  }
  if (end !== length && roundUp(end, 8) !== length) {
    throw new PloError(`the object's length is ${length}, its parts have ${end}`);
  }
  return tables;
}

function roundUp(number, multiple) {
  return Math.ceil(number / multiple) * multiple;
}

function checkSizes(sizes) {
  for (const name of SIZES.slice(0, -1)) {
    if (!(sizes[name] >= 0 && sizes[name] <= ENTRIES_MAX)) {
      throw new PloError(`${sizes[name]} ${name} are past the limit of ${ENTRIES_MAX}`);
    }
  }
}

/** The tables of an object in stream form. */
export function stream(bytes) {
  const bodyBytes = checkMessages(bytes);
  const end = constants.schema.length + constants.batch.length + bodyBytes;
  if (bytes.length < end + 8) {
    throw PloError.cutOff(end + 8, bytes.length);
  }
  if (bytes.subarray(end, end + 8).some((byte, at) => byte !== (at < 4 ? 255 : 0))) {
    throw new PloError('the stream does not end after its batch');
  }
  const [batch] = RecordBatchReader.from(bytes.subarray(0, end + 8));
  const sizes = [];
  const buffers = [];
  for (const column of batch.data.children) {
    const [inner] = column.children;
    const [first, last] = column.valueOffsets;
    if (column.length !== 1 || first !== 0 || last !== inner.length) {
      throw new PloError(`outer offsets ${first} and ${last} around ${inner.length} entries`);
    }
    sizes.push(inner.length);
    collect(inner, sizes, buffers);
  }
  const tables = { sizes: Object.fromEntries(SIZES.map((name, number) => [name, sizes[number]])) };
  checkSizes(tables.sizes);
  BUFFERS.forEach(([name, [size, Typed, extent]], number) => {
    const wanted = extent(tables.sizes[size]);
    const buffer = buffers[number] ?? new Typed(0);
    if (buffer.byteLength !== wanted) {
      throw new PloError(`${name} has ${buffer.byteLength} bytes instead of ${wanted}`);
    }
    tables[name] = new Typed(buffer.buffer, buffer.byteOffset, wanted / Typed.BYTES_PER_ELEMENT);
  });
  return tables;
}

/** The inner sizes and the buffers of Arrow data, in the order of the format. */
function collect(data, sizes, buffers) {
  switch (data.typeId) {
    case Type.Union:
      buffers.push(data.typeIds, data.valueOffsets);
      for (const child of data.children) {
        sizes.push(child.length);
        collect(child, sizes, buffers);
      }
      break;
    case Type.Struct:
      for (const child of data.children) {
        if (child.length !== data.length) {
          throw new PloError(`a field of ${child.length} entries where ${data.length} are needed`);
        }
        collect(child, sizes, buffers);
      }
      break;
    case Type.List:
      buffers.push(data.valueOffsets);
      sizes.push(data.children[0].length);
      collect(data.children[0], sizes, buffers);
      break;
    case Type.Utf8:
    case Type.Binary:
    case Type.LargeBinary:
      buffers.push(data.valueOffsets, data.values);
      sizes.push(data.values?.byteLength ?? 0);
      break;
    case Type.Null:
      break;
    default:
      buffers.push(data.values);
  }
}

function decode(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

const constants = {
  schema: decode(messages.SCHEMA_BASE64),
  batch: decode(messages.BATCH_BASE64),
};

/** The length of the body, after both messages were found to be the constant ones, but for the
 * numbers of the batch: apache-arrow trusts what it reads. */
function checkMessages(bytes) {
  const { schema, batch } = constants;
  if (bytes.length < schema.length || !schema.every((byte, at) => bytes[at] === byte)) {
    const text = 'the bytes start with neither PLO1 nor the schema of version 1';
    throw new PloError(text, { code: 'not_an_object' });
  }
  const found = bytes.slice(schema.length, schema.length + batch.length);
  if (found.length < batch.length) {
    throw PloError.cutOff(schema.length + batch.length, bytes.length);
  }
  const view = new DataView(found.buffer);
  const body = view.getBigUint64(messages.BODY_LENGTH_AT, true);
  for (let number = 0; number < messages.NODE_COUNT; number += 1) {
    const length = view.getBigInt64(messages.NODES_AT + 16 * number, true);
    const nulls = view.getBigInt64(messages.NODES_AT + 16 * number + 8, true);
    const isKnown = length >= 0n && length <= BigInt(ENTRIES_MAX);
    if (!isKnown || nulls !== (number === NULL_NODE ? length : 0n)) {
      throw new PloError(`a table with ${length} entries and ${nulls} nulls`);
    }
  }
  let end = 0n;
  for (let number = 0; number < messages.BUFFER_COUNT; number += 1) {
    const offset = view.getBigUint64(messages.BUFFERS_AT + 16 * number, true);
    const length = view.getBigUint64(messages.BUFFERS_AT + 16 * number + 8, true);
    if (offset !== end) {
      throw new PloError(`a buffer at ${offset} of the body that should be at ${end}`);
    }
    end += ((length + 63n) / 64n) * 64n;
  }
  if (end !== body) {
    throw new PloError(`a body of ${body} bytes whose buffers have ${end}`);
  }
  found.fill(0, messages.BODY_LENGTH_AT, messages.BODY_LENGTH_AT + 8);
  found.fill(0, messages.NODES_AT, messages.NODES_AT + 16 * messages.NODE_COUNT);
  found.fill(0, messages.BUFFERS_AT, messages.BUFFERS_AT + 16 * messages.BUFFER_COUNT);
  if (!batch.every((byte, at) => found[at] === byte)) {
    throw new PloError("the record batch's message is not that of an object");
  }
  return Number(body);
}
