// The rules of section 4: every entry of a table is used, in the order of the nodes.
//
// The check goes through the nodes as their writer did, with a counter for each table. What is
// mentioned for the first time must be the next entry. So nothing is used twice, nothing leads
// outside, and what is built afterwards takes a constant times the object's size.

import { SIZES } from './buffers.js';
import { PloError } from './values.js';

export const Kind = Object.freeze({
  list: 0, tuple: 1, dict: 2, set: 3, frozenset: 4, dictRows: 5, tupleRows: 6, objectRows: 7,
  field: 8, object: 9, array: 10,
});

export const Elem = Object.freeze({
  none: 0, bits: 1, i32: 2, i64: 3, f64: 4, strs: 5, refs: 6, bins: 7, nodes: 8, slots: 9,
  rows: 10, tensors: 11, exts: 12,
});

const FIELDS_MAX = 1024;
const ROW_FIELDS_MAX = 64;
const NAME_BYTES_MAX = 4096;
const HEAP_ALIGN = 64n;
const MAKE_ATTRIBUTES = 0;
const SOURCE_PICKLED = 3;
const TENSOR_SHAPE = 2;
const SLOT_NODE = 6;
const SLOT_REF = 7;

/** The table that each type of slot is an index of. */
const SLOT_TABLES = { 4: 'strs', 5: 'bins', 8: 'tensors', 9: 'exts' };
/** The table that a run takes a stretch of, where it is no more than that. */
const RUN_TABLES = ['bits', 'bits', 'i32', 'i64', 'f64', 'strs', 'refs', 'bins'];

const OFFSETS = {
  strOffsets: 'strsBytes', binOffsets: 'binsBytes', nameOffsets: 'classNameBytes',
  fieldOffsets: 'classFields', fieldNameOffsets: 'classFieldBytes', dtypeOffsets: 'dtypeBytes',
  shapeOffsets: 'tensorShape', strideOffsets: 'tensorStrides', dataOffsets: 'extBytes',
  heapsOffsets: 'extHeaps', heapOffsets: 'heapBytes',
};

/** The error of a broken rule. */
export function broken(what, at) {
  return new PloError(`the object is broken: ${what} at ${at}`);
}

/** The runs of a node: element, start and length. Those of rows are their fields'. */
export function runs(tables, node) {
  const kind = tables.nodeKind[node];
  const length = tables.nodeLength[node];
  const start2 = tables.nodeStart2[node];
  const first = [tables.nodeElem[node], tables.nodeStart[node]];
  switch (kind) {
    case Kind.dict:
      return [[...first, length], [tables.nodeElem2[node], start2, length]];
    case Kind.dictRows:
      return [[...first, start2]];
    case Kind.tupleRows:
    case Kind.objectRows:
      return [];
    default:
      return [[...first, length]];
  }
}

const isRow = (kind) => kind >= Kind.dictRows && kind <= Kind.objectRows;
const isWhole = (kind) => kind <= Kind.frozenset || kind === Kind.object || kind === Kind.array;

/** Throws a {@link PloError} unless every rule is kept. */
export function check(tables) {
  new Check(tables).run();
}

class Check {
  constructor(tables) {
    this.tables = tables;
    this.used = Object.fromEntries(SIZES.map((name) => [name, 0]));
  }

  run() {
    const { sizes } = this.tables;
    for (const [name, end] of Object.entries(OFFSETS)) {
      checkOffsets(name, this.tables[name], sizes[end]);
    }
    if (this.tables.heapOffsets.some((offset) => offset % HEAP_ALIGN !== 0n)) {
      throw new PloError('the object is broken: heap entries out of line');
    }
    this.slots(0, 1);
    for (let node = 0; node < sizes.nodes; node += 1) {
      if (node >= this.used.nodes) {
        throw broken('a node without an owner', node);
      }
      this.node(node);
    }
    const bytes = /Bytes$|^class.+|^dtype|^tensor.+|^extHeaps$|^heap/;
    for (const name of SIZES.filter((size) => size === 'classes' || !bytes.test(size))) {
      if (this.used[name] !== sizes[name]) {
        throw broken(`${name} that nothing uses`, this.used[name]);
      }
    }
  }

  /** Uses the next entries of a table. */
  take(table, start, count) {
    if (start !== this.used[table] || start + count > this.tables.sizes[table]) {
      throw broken(`a run that is not the next one of ${table}`, start);
    }
    this.used[table] += count;
  }

  /** Uses an entry that was used before or is the next; whether it is the next. */
  mention(table, index) {
    if (!(index >= 0 && index <= this.used[table] && index < this.tables.sizes[table])) {
      throw broken(`an index of ${table} that is neither in use nor the next`, index);
    }
    const first = index === this.used[table];
    this.used[table] += first ? 1 : 0;
    return first;
  }

  /** An entry of strs, bins, tensors or exts. Only arrays of objects have shapes. */
  mentionOf(table, index, isShape = false) {
    this.mention(table, index);
    if (table === 'tensors' && (this.tables.tensorKind[index] === TENSOR_SHAPE) !== isShape) {
      throw broken('a tensor of the wrong kind', index);
    }
  }

  slots(start, count) {
    const { tables } = this;
    this.take('slots', start, count);
    for (let slot = start; slot < start + count; slot += 1) {
      const type = tables.slotType[slot];
      if (!(type >= 0 && type <= 9)) {
        throw broken(`a slot of the unknown type ${type}`, slot);
      }
      const name = SIZES[1 + type];
      const at = tables.slotOffset[slot];
      this.take(name, at, 1);
      if (type === SLOT_NODE) {
        this.own(tables.node[at], 1);
      } else if (type === SLOT_REF) {
        const to = tables.ref[at];
        if (!(to >= 0 && to < this.used.nodes && isWhole(tables.nodeKind[to]))) {
          throw broken('a reference to a node that does not exist yet, or to rows', slot);
        }
      } else if (SLOT_TABLES[type]) {
        this.mentionOf(SLOT_TABLES[type], tables[name][at]);
      }
    }
  }

  own(start, count) {
    this.take('nodes', start, count);
    for (let node = start; node < start + count; node += 1) {
      if (!isWhole(this.tables.nodeKind[node])) {
        throw broken('a node without a value', node);
      }
    }
  }

  ownRows(node, length) {
    const { nodeKind, nodeLength, nodeStart2, nodeElem } = this.tables;
    const count = nodeStart2[node];
    if (!isRow(nodeKind[node]) || !(count >= 1 && count <= ROW_FIELDS_MAX)) {
      throw broken('rows without a row node', node);
    }
    this.take('nodes', node, 1 + count);
    let isSolid = this.isSolid(node);
    for (let at = node + 1; at <= node + count; at += 1) {
      if (nodeKind[at] !== Kind.field || nodeLength[at] !== length) {
        throw broken('rows without fields of their length', node);
      }
      isSolid ||= nodeElem[at] === Elem.rows && this.isSolid(this.tables.nodeStart[at]);
    }
    if (nodeLength[node] !== length || !isSolid) {
      throw broken('rows of another length, or of nothing but bits and rows', node);
    }
  }

  /** Whether a row takes bytes of its own: one of its fields is neither bits nor rows. */
  isSolid(rows) {
    const { nodeElem, nodeStart2 } = this.tables;
    const fields = nodeElem.subarray(rows + 1, rows + 1 + Math.min(nodeStart2[rows], ROW_FIELDS_MAX));
    return fields.some((elem) => ![Elem.none, Elem.bits, Elem.rows].includes(elem));
  }

  runOf(elem, start, length) {
    if (length <= 0) {
      if (elem !== 0 || start !== 0 || length !== 0) {
        throw broken('an empty run with a place', start);
      }
    } else if (elem < Elem.nodes) {
      this.take(RUN_TABLES[elem], start, length);
      for (let at = start; elem === Elem.refs && at < start + length; at += 1) {
        this.mention('strs', this.tables.refs[at]);
      }
    } else if (elem === Elem.nodes) {
      this.own(start, length);
    } else if (elem === Elem.slots) {
      this.slots(start, length);
    } else if (elem === Elem.rows) {
      this.ownRows(start, length);
    } else if (elem === Elem.tensors || elem === Elem.exts) {
      const table = elem === Elem.tensors ? 'tensors' : 'exts';
      if (start !== this.used[table] || start + length > this.tables.sizes[table]) {
        throw broken(`a run that is not the next one of ${table}`, start);
      }
      for (let index = start; index < start + length; index += 1) {
        this.mentionOf(table, index);
      }
    } else {
      throw broken(`a run of the unknown kind ${elem}`, start);
    }
  }

  node(node) {
    const { tables } = this;
    const kind = tables.nodeKind[node];
    const start2 = tables.nodeStart2[node];
    if (this.hasUnused(kind, node)) {
      throw broken('a node with fields that it does not use', node);
    }
    if (kind === Kind.object) {
      this.object(start2, tables.nodeLength[node]);
      if (tables.nodeElem[node] === Elem.rows) {
        throw broken('an object whose parts are rows', node);
      }
    } else if (kind === Kind.objectRows) {
      this.object(tables.nodeStart[node], start2);
    } else if (kind === Kind.array) {
      this.mentionOf('tensors', start2, true);
    }
    for (const run of runs(tables, node)) {
      this.runOf(...run);
    }
  }

  /** Whether something is in a field of a node that its kind doesn't use. */
  hasUnused(kind, node) {
    const { nodeElem, nodeElem2, nodeStart, nodeStart2 } = this.tables;
    let unused = kind === Kind.dict ? 0 : nodeElem2[node];
    if (kind <= Kind.frozenset ? kind !== Kind.dict : kind === Kind.field) {
      unused |= nodeStart2[node];
    } else if (kind === Kind.tupleRows || kind === Kind.objectRows) {
      unused |= nodeElem[node] | (kind === Kind.tupleRows ? nodeStart[node] : 0);
    }
    return unused !== 0;
  }

  object(index, parts) {
    const { tables } = this;
    const first = this.mention('classes', index);
    const source = tables.classSource[index];
    const make = tables.classMake[index];
    const fields = tables.fieldOffsets[index + 1] - tables.fieldOffsets[index];
    if (tables.nameOffsets[index + 1] - tables.nameOffsets[index] > NAME_BYTES_MAX) {
      throw broken('the name of a class past its limit', index);
    }
    const known = source <= SOURCE_PICKLED && make <= 5 && fields <= FIELDS_MAX;
    if (!known || (fields !== 0 && make !== MAKE_ATTRIBUTES)) {
      throw broken("a class of an unknown kind, or with fields it can't have", index);
    }
    if (source !== SOURCE_PICKLED && tables.classExt[index] !== -1) {
      throw broken('a class with a name and a pickle', index);
    }
    if (first && source === SOURCE_PICKLED) {
      this.mention('exts', tables.classExt[index]);
    }
    const [least, most] = [[fields, fields], [1, 1], [1, 5], [1, 5], [2, 6], [0, 0]][make];
    if (parts < least || parts > most) {
      throw broken(`an object with ${parts} parts`, index);
    }
  }
}

function checkOffsets(name, offsets, end) {
  const isRising = offsets.every((offset, at) => at === 0 || offset >= offsets[at - 1]);
  const first = Number(offsets[0] ?? 0);
  const last = Number(offsets[offsets.length - 1] ?? 0);
  if (first !== 0 || last !== end || !isRising) {
    throw new PloError(`the object is broken: ${name} do not rise from 0 to ${end}`);
  }
}
