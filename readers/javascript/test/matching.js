// Compares values, read with `bigint: true`, with the JSON that describes the golden vectors
// (spec/objects/README.md).

import { tableFromIPC } from 'apache-arrow';

import * as plo from '../src/index.js';

const SOURCES = ['specified', 'registered', 'importable', 'pickled'];
const MAKES = ['attributes', 'state', 'call', 'new', 'new_ex', 'value'];
const TENSOR_KINDS = ['numpy', 'memoryview'];
const PATH_KINDS = ['path', 'posix', 'windows'];

/** What was read is not what was described. */
export class Mismatch extends Error {}

const hex = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
const same = (left, right) => JSON.stringify(left) === JSON.stringify(right);
const isExactly = (value, Class) => value?.constructor === Class;

/** A key that was boxed because JavaScript holds it equal to another. */
const unboxed = (value) => (value instanceof Number ? value.valueOf() : value);

function isFloat(value, text) {
  const words = { nan: NaN, inf: Infinity, '-inf': -Infinity };
  return typeof value === 'number' && Object.is(value, words[text] ?? Number(text));
}

function zoneOf(zone) {
  if (zone === null || zone.kind === 'utc') {
    return zone && 'UTC';
  }
  return zone.kind === 'iana'
    ? { key: zone.key }
    : { offset: Number(zone.offsetMicros), name: zone.name ?? '' };
}

const clock = (value) => [Number(value.micros), value.fold, zoneOf(value.zone)];

function isTensor(value, want) {
  return value instanceof plo.Tensor
    && value.kind === TENSOR_KINDS[want.kind ?? 0]
    && value.dtype.text === want.dtype
    && same(value.shape, want.shape)
    && (want.strides === undefined || same(value.strides, want.strides))
    && hex(value.toBytes()) === want.data;
}

function isArrow(value, want) {
  const rows = (stream) => JSON.stringify(tableFromIPC(stream).toArray(), (_, item) =>
    (typeof item === 'bigint' ? String(item) : item));
  return value.kind === want.kind && value.text === want.text
    && rows(value.stream) === rows(Buffer.from(want.stream, 'hex'));
}

const isPickle = (kind) => (value, want, whole) =>
  value instanceof plo.Pickle && value.kind === kind && hex(value.data) === want
  && same(value.buffers.map(hex), whole.buffers ?? []);

/** What each tag means, where nothing is inside. */
const LEAVES = {
  int: (value, want) => typeof value === 'bigint' && value === BigInt(want),
  float: isFloat,
  bytes: (value, want) => isExactly(value, Uint8Array) && hex(value) === want,
  bytearray: (value, want) => isExactly(value, plo.ByteArray) && hex(value) === want,
  surrogates: (value, want) => {
    const units = Array.from(value, (letter) => letter.codePointAt(0));
    const bytes = units.flatMap((code) => (code >= 0xd800 && code < 0xe000
      ? [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]
      : [...Buffer.from(String.fromCodePoint(code))]));
    return hex(Uint8Array.from(bytes)) === want;
  },
  complex: (value, [re, im]) =>
    value instanceof plo.Complex && isFloat(value.re, re) && isFloat(value.im, im),
  date: (value, want) => value instanceof plo.PlainDate && value.days === want,
  datetime: (value, want) => value instanceof plo.DateTime && same(clock(value), want),
  time: (value, want) => value instanceof plo.Time && same(clock(value), want),
  timedelta: (value, want) =>
    value instanceof plo.TimeDelta && same([value.days, value.seconds, value.micros], want),
  tzinfo: (value, want) => same(zoneOf(value), want),
  decimal: (value, want) => value instanceof plo.Decimal && value.text === want,
  uuid: (value, want) => value instanceof plo.Uuid && String(value) === want,
  path: (value, [kind, text]) => value.kind === PATH_KINDS[kind] && String(value) === text,
  singleton: (value, want) => value instanceof plo.Singleton && value.name === want,
  type: (value, want) => value instanceof plo.Global && value.name === want,
  global: (value, want) => value instanceof plo.Global && value.name === want,
  tensor: isTensor,
  scalar: (value, want) => value instanceof plo.Scalar && value.dtype.text === want.dtype
    && hex(value.bytes) === want.data,
  dtype: (value, want) => value instanceof plo.Dtype && value.text === want,
  arrow: isArrow,
  pickle: isPickle('pickle'),
  cloudpickle: isPickle('cloudpickle'),
};

export class Matching {
  known = new Map();

  match(found, want, path = 'root') {
    const value = unboxed(found);
    const expect = (fits) => {
      if (!fits) {
        throw new Mismatch(`${path}: ${String(value)} is not ${JSON.stringify(want)}`);
      }
    };
    if (want === null || typeof want !== 'object') {
      expect(value === want);
    } else if ('ref' in want) {
      expect(this.known.get(want.ref) === value);
    } else {
      if ('id' in want) {
        this.known.set(want.id, value);
      }
      const tag = Object.keys(want).find((key) => LEAVES[key] ?? this[`is_${key}`]);
      const check = LEAVES[tag] ?? this[`is_${tag}`].bind(this);
      expect(check(value, want[tag], want, path));
    }
    return true;
  }

  all(values, want, path) {
    if (values.length !== want.length) {
      throw new Mismatch(`${path}: ${values.length} values instead of ${want.length}`);
    }
    return values.every((value, at) => this.match(value, want[at], `${path}[${at}]`));
  }

  is_list(value, want, whole, path) {
    return isExactly(value, Array) && this.all(value, want, path);
  }

  is_tuple(value, want, whole, path) {
    return isExactly(value, plo.Tuple) && this.all(value, want, path);
  }

  // A set has the order in which it was stored.
  is_set(value, want, whole, path) {
    return isExactly(value, Set) && this.all([...value], want, path);
  }

  is_frozenset(value, want, whole, path) {
    return isExactly(value, plo.FrozenSet) && this.all([...value], want, path);
  }

  is_dict(value, want, whole, path) {
    return isExactly(value, Map)
      && this.all([...value.keys()], want.map(([key]) => key), `${path} keys`)
      && this.all([...value.values()], want.map(([, item]) => item), path);
  }

  is_array(value, want, whole, path) {
    return value instanceof plo.ObjectArray && same(value.shape, want.shape)
      && this.all(value.items, want.items, path);
  }

  is_object(value, want, whole, path) {
    return value instanceof plo.PloObject
      && value.cls.name === want.class
      && value.cls.source === SOURCES[want.source]
      && value.cls.make === MAKES[want.make]
      && value.cls.version === (want.version ?? 0)
      && same(value.cls.fields, want.fields ?? [])
      && this.all([...value.fields.values()], want.parts, path);
  }
}
