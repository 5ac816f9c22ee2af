// Containers and objects, made without recursion.
//
// Everything that holds something is made empty first, and filled afterwards; so whatever refers to
// what, it is there.

import { Elem, Kind, broken, runs } from './check.js';
import { Leaves } from './leaves.js';
import { integer } from './tensors.js';
import { FrozenSet, ObjectArray, PloObject, Tuple } from './values.js';

const SLOT_NODE = 6;
const SLOT_REF = 7;
const CALL = ['args', 'state', 'items', 'pairs', 'setter'];

/** The names of an object's parts. */
function partNames(cls) {
  switch (cls.make) {
    case 'attributes':
      return cls.fields;
    case 'state':
      return ['state'];
    case 'new_ex':
      return ['args', 'kwargs', ...CALL.slice(1)];
    default:
      return CALL;
  }
}

const bit = (bitmap, at) => ((bitmap[at >> 3] >> (at & 7)) & 1) === 1;

/** Makes the values of an object that was checked. */
export class Build {
  constructor(tables, { bigint = false } = {}) {
    this.tables = tables;
    this.leaves = new Leaves(tables);
    this.integer = bigint ? (value) => BigInt(value) : (value) => value;
    this.long = bigint ? (value) => value : integer;
    if (bigint) {
      const isInteger = (at) => tables.extKind[at] === 0;
      this.leaves.exts = this.leaves.exts.map((ext, at) => (isInteger(at) ? BigInt(ext) : ext));
    }
  }

  /** The value of the root. */
  run() {
    const { tables } = this;
    this.checkImmutables();
    this.built = Array.from(tables.nodeKind, (kind, node) => this.shell(kind, node));
    tables.nodeKind.forEach((kind, node) => this.fill(kind, node));
    return this.values(Elem.slots, 0, 1)[0];
  }

  /** What a node is before it is filled; for rows a list of such. */
  shell(kind, node) {
    const { tables, leaves } = this;
    const rows = (make) => Array.from({ length: tables.nodeLength[node] }, make);
    switch (kind) {
      case Kind.list:
        return [];
      case Kind.tuple:
        return new Tuple();
      case Kind.dict:
        return new Map();
      case Kind.set:
        return new Set();
      case Kind.frozenset:
        return new FrozenSet();
      case Kind.dictRows:
        return rows(() => new Map());
      case Kind.tupleRows:
        return rows(() => new Tuple());
      case Kind.objectRows:
        return rows(() => new PloObject(leaves.classes[tables.nodeStart[node]]));
      case Kind.object:
        return new PloObject(leaves.classes[tables.nodeStart2[node]]);
      case Kind.array:
        return this.objectArray(node);
      default:
        return null;
    }
  }

  objectArray(node) {
    const { shape } = this.leaves.tensors[this.tables.nodeStart2[node]];
    const count = shape.reduce((product, extent) => product * extent, 1);
    if (count !== this.tables.nodeLength[node]) {
      throw broken(`an array of objects with ${count} elements`, node);
    }
    return new ObjectArray(shape, []);
  }

  fill(kind, node) {
    const target = this.built[node];
    if (kind >= Kind.dictRows && kind <= Kind.objectRows) {
      this.fillRows(kind, node, target);
      return;
    }
    if (kind === Kind.field) {
      return;
    }
    const [first, second] = runs(this.tables, node).map((run) => this.values(...run));
    switch (kind) {
      case Kind.dict:
        first.forEach((key, at) => put(target, key, second[at]));
        break;
      case Kind.set:
      case Kind.frozenset:
        first.forEach((item) => target.add(target.has(item) ? Object(item) : item));
        break;
      case Kind.object:
        first.forEach((part, at) => target.fields.set(partNames(target.cls)[at], part));
        break;
      default:
        for (const item of first) {
          (kind === Kind.array ? target.items : target).push(item);
        }
    }
  }

  fillRows(kind, node, rows) {
    const { tables } = this;
    const count = tables.nodeStart2[node];
    const [keys] = runs(tables, node).map((run) => this.values(...run));
    for (let field = 0; field < count; field += 1) {
      const column = this.values(...runs(tables, node + 1 + field)[0]);
      if (kind === Kind.tupleRows) {
        rows.forEach((row, at) => row.push(column[at]));
      } else if (kind === Kind.dictRows) {
        rows.forEach((row, at) => put(row, keys[field], column[at]));
      } else {
        rows.forEach((row, at) => row.fields.set(partNames(row.cls)[field], column[at]));
      }
    }
  }

  /** The values of a run. */
  values(elem, start, length) {
    const { tables, leaves, built } = this;
    const end = start + length;
    switch (elem) {
      case Elem.none:
        return Array.from({ length }, () => null);
      case Elem.bits:
        return Array.from({ length }, (_, at) => bit(tables.bits, start + at));
      case Elem.i32:
        return Array.from(tables.i32.subarray(start, end), this.integer);
      case Elem.i64:
        return Array.from(tables.i64.subarray(start, end), this.long);
      case Elem.f64:
        return Array.from(tables.f64.subarray(start, end));
      case Elem.strs:
        return leaves.strs.slice(start, end);
      case Elem.refs:
        return Array.from(tables.refs.subarray(start, end), (index) => leaves.strs[index]);
      case Elem.bins:
        return leaves.bins.slice(start, end);
      case Elem.nodes:
        return built.slice(start, end);
      case Elem.slots:
        return Array.from({ length }, (_, at) => this.slot(start + at));
      case Elem.rows:
        return built[start];
      case Elem.tensors:
        return leaves.tensors.slice(start, end);
      default:
        return leaves.exts.slice(start, end);
    }
  }

  slot(slot) {
    const { tables, leaves, built } = this;
    const at = tables.slotOffset[slot];
    switch (tables.slotType[slot]) {
      case 0:
        return null;
      case 1:
        return bit(tables.bool, at);
      case 2:
        return this.long(tables.int[at]);
      case 3:
        return tables.float[at];
      case 4:
        return leaves.strs[tables.str[at]];
      case 5:
        return leaves.bins[tables.bytes[at]];
      case SLOT_NODE:
        return built[tables.node[at]];
      case SLOT_REF:
        return built[tables.ref[at]];
      case 8:
        return leaves.tensors[tables.tensor[at]];
      default:
        return leaves.exts[tables.ext[at]];
    }
  }

  /** An immutable can't hold itself but within something mutable. Without refs nothing can. */
  checkImmutables() {
    const { nodeKind, sizes } = this.tables;
    const states = new Uint8Array(sizes.ref === 0 ? 0 : sizes.nodes);
    const isImmutable = (node) =>
      [Kind.tuple, Kind.frozenset, Kind.tupleRows].includes(nodeKind[node]);
    const [open, done] = [1, 2];
    for (let root = 0; root < states.length; root += 1) {
      const stack = isImmutable(root) && !states[root] ? [[root, this.children(root)]] : [];
      while (stack.length > 0) {
        const [node, children] = stack[stack.length - 1];
        states[node] = open;
        let { value: child, done: isOver } = children.next();
        while (!isOver && (!isImmutable(child) || states[child] === done)) {
          ({ value: child, done: isOver } = children.next());
        }
        if (isOver) {
          states[node] = done;
          stack.pop();
        } else if (states[child] === open) {
          throw broken('an immutable that contains itself', child);
        } else {
          stack.push([child, this.children(child)]);
        }
      }
    }
  }

  /** The nodes among the values of an immutable one. */
  * children(node) {
    const { tables } = this;
    const isRows = tables.nodeKind[node] === Kind.tupleRows;
    const fields = isRows ? tables.nodeStart2[node] : 0;
    for (let part = isRows ? 1 : 0; part <= fields; part += 1) {
      const [[elem, start, length]] = runs(tables, node + part);
      for (let at = start; elem === Elem.nodes && at < start + length; at += 1) {
        yield at;
      }
      if (elem === Elem.rows) {
        yield start;
      }
      for (let slot = start; elem === Elem.slots && slot < start + length; slot += 1) {
        const type = tables.slotType[slot];
        if (type === SLOT_NODE || type === SLOT_REF) {
          yield (type === SLOT_NODE ? tables.node : tables.ref)[tables.slotOffset[slot]];
        }
      }
    }
  }
}

/** Sets a key; one that JavaScript takes for an earlier one (NaN) is boxed. */
function put(map, key, value) {
  map.set(map.has(key) ? Object(key) : key, value);
}
