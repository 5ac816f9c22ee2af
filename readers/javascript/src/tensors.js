// Arrays of any element type, and NumPy's scalars.

import { Complex } from './values.js';

const TYPED = {
  i1: Int8Array, i2: Int16Array, i4: Int32Array, i8: BigInt64Array,
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, u8: BigUint64Array,
  f4: Float32Array, f8: Float64Array, b1: Uint8Array,
};

/** What the letters of Python's `struct` are to NumPy, but for their size. */
const STRUCT_KINDS = { '?': 'b', c: 'S', e: 'f', f: 'f', d: 'f', B: 'u', H: 'u', I: 'u', L: 'u',
  Q: 'u', N: 'u', P: 'u' };

/** The byte order, the kind and the size of an element type: `<`, `f8`. */
function takeApart(dtype) {
  const { text, itemsize } = dtype;
  if (text.length === 1) {
    return { big: false, kind: `${STRUCT_KINDS[text] ?? 'i'}${itemsize}` };
  }
  return { big: text.startsWith('>'), kind: text.startsWith('[') ? 'V' : text.slice(1) };
}

/** A 64-bit integer as a number where that is exact. */
export function integer(value) {
  return BigInt.asIntN(54, value) === value ? Number(value) : value;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) {
    return fraction ? NaN : sign * Infinity;
  }
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

function utf32(bytes, big) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let text = '';
  for (let at = 0; at + 4 <= bytes.length; at += 4) {
    text += String.fromCodePoint(view.getUint32(at, !big));
  }
  return text.replace(/\0+$/, '');
}

/** How the elements of the fixed sizes are read. */
const READERS = {
  b1: (view, at) => view.getUint8(at) !== 0,
  i1: (view, at) => view.getInt8(at),
  u1: (view, at) => view.getUint8(at),
  i2: (view, at, little) => view.getInt16(at, little),
  u2: (view, at, little) => view.getUint16(at, little),
  i4: (view, at, little) => view.getInt32(at, little),
  u4: (view, at, little) => view.getUint32(at, little),
  i8: (view, at, little) => integer(view.getBigInt64(at, little)),
  u8: (view, at, little) => integer(view.getBigUint64(at, little)),
  f2: (view, at, little) => half(view.getUint16(at, little)),
  f4: (view, at, little) => view.getFloat32(at, little),
  f8: (view, at, little) => view.getFloat64(at, little),
  c8: (view, at, little) =>
    new Complex(view.getFloat32(at, little), view.getFloat32(at + 4, little)),
  c16: (view, at, little) =>
    new Complex(view.getFloat64(at, little), view.getFloat64(at + 8, little)),
};

/**
 * One element: a number, a boolean, a Complex, a string for `U`; NumPy's dates and spans are their
 * counts; whatever JavaScript has nothing for is its bytes.
 */
function element(dtype, memory, at) {
  const { big, kind } = takeApart(dtype);
  const plain = kind.startsWith('M') || kind.startsWith('m') ? 'i8' : kind;
  const reader = READERS[plain];
  if (reader && dtype.itemsize === Number(plain.slice(1))) {
    const view = new DataView(memory.buffer, memory.byteOffset, memory.byteLength);
    return reader(view, at, !big);
  }
  const bytes = memory.subarray(at, at + dtype.itemsize);
  if (kind.startsWith('U')) {
    return utf32(bytes, big);
  }
  let end = bytes.length;
  while (kind.startsWith('S') && end > 0 && bytes[end - 1] === 0) {
    end -= 1;
  }
  return bytes.subarray(0, end);
}

/**
 * An array of any element type: `shape` and `strides` (in bytes) over `memory`, from `offset` on.
 * `kind` is `numpy` or `memoryview`; the latter's element type is one letter of Python's `struct`.
 */
export class Tensor {
  constructor(kind, dtype, shape, strides, memory, offset) {
    Object.assign(this, { kind, dtype, shape, strides, memory, offset });
  }

  /** How many elements there are. */
  get size() {
    return this.shape.reduce((product, extent) => product * extent, 1);
  }

  /** The element at an index for each dimension, none negative. */
  get(...index) {
    if (index.length !== this.shape.length
      || index.some((at, dimension) => !(at >= 0 && at < this.shape[dimension]))) {
      throw new RangeError(`[${index}] is not an index of an array of shape [${this.shape}]`);
    }
    const at = index.reduce((sum, n, dimension) => sum + n * this.strides[dimension], this.offset);
    return element(this.dtype, this.memory, at);
  }

  /** The offset in `memory` of every element in C order. */
  * offsets() {
    if (this.shape.includes(0)) {
      return;
    }
    const index = this.shape.map(() => 0);
    let at = this.offset;
    for (;;) {
      yield at;
      let dimension = index.length - 1;
      while (dimension >= 0 && index[dimension] === this.shape[dimension] - 1) {
        at -= index[dimension] * this.strides[dimension];
        index[dimension] = 0;
        dimension -= 1;
      }
      if (dimension < 0) {
        return;
      }
      index[dimension] += 1;
      at += this.strides[dimension];
    }
  }

  /** The elements in C order. */
  toFlatArray() {
    return Array.from(this.offsets(), (at) => element(this.dtype, this.memory, at));
  }

  /** The elements in arrays, one level for each dimension. */
  toArray() {
    const level = (dimension, at) => {
      if (dimension === this.shape.length) {
        return element(this.dtype, this.memory, at);
      }
      const stride = this.strides[dimension];
      const parts = Array.from({ length: this.shape[dimension] });
      return parts.map((_, n) => level(dimension + 1, at + n * stride));
    };
    return level(0, this.offset);
  }

  /** The bytes of the elements in C order: a view where they lie so, else a copy. */
  toBytes() {
    const { itemsize } = this.dtype;
    if (this.isContiguous) {
      return this.memory.subarray(this.offset, this.offset + this.size * itemsize);
    }
    const bytes = new Uint8Array(this.size * itemsize);
    let end = 0;
    for (const at of this.offsets()) {
      bytes.set(this.memory.subarray(at, at + itemsize), end);
      end += itemsize;
    }
    return bytes;
  }

  /** Whether the elements lie in C order without gaps. */
  get isContiguous() {
    let wanted = this.dtype.itemsize;
    for (let dimension = this.shape.length - 1; dimension >= 0; dimension -= 1) {
      if (this.shape[dimension] !== 1 && this.strides[dimension] !== wanted) {
        return this.shape.includes(0);
      }
      wanted *= this.shape[dimension];
    }
    return true;
  }

  /**
   * The elements in C order as a typed array: a view where they lie so, else a copy. Throws where
   * JavaScript has no such typed array.
   */
  toTypedArray() {
    const { big, kind } = takeApart(this.dtype);
    const Typed = TYPED[/^[Mm]/.test(kind) ? 'i8' : kind];
    if (!Typed || (big && this.dtype.itemsize > 1)) {
      throw new TypeError(`there is no typed array for elements of type ${this.dtype}`);
    }
    let bytes = this.toBytes();
    if (bytes.byteOffset % Typed.BYTES_PER_ELEMENT !== 0) {
      bytes = bytes.slice();
    }
    return new Typed(bytes.buffer, bytes.byteOffset, this.size);
  }
}

/** A NumPy scalar: its element type, its bytes, and the value as a tensor's element. */
export class Scalar {
  constructor(dtype, bytes) {
    Object.assign(this, { dtype, bytes });
  }

  get value() {
    return element(this.dtype, this.bytes, 0);
  }

  valueOf() {
    return this.value;
  }
}
