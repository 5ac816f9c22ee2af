// The values that JavaScript has no type of its own for, and the one error.

/** The bytes are not an object in the PLO format, or break one of its rules. */
export class PloError extends Error {
  name = 'PloError';

  /** @param {'not_an_object' | 'truncated' | 'broken'} code see section 8 of the specification */
  constructor(message, { code = 'broken', ...options } = {}) {
    super(message, options);
    this.code = code;
  }

  /** The error of bytes that end before the object does. */
  static cutOff(wanted, found) {
    const text = `the object is cut off: it has ${wanted} bytes, and ${found} are there`;
    return new PloError(text, { code: 'truncated' });
  }
}

/** A Python tuple: an array that must not be changed. */
export class Tuple extends Array {
  static get [Symbol.species]() {
    return Array;
  }
}

/** A Python frozenset: a set that must not be changed. */
export class FrozenSet extends Set {}

/** A Python bytearray. Bytes are a plain Uint8Array. */
export class ByteArray extends Uint8Array {
  static get [Symbol.species]() {
    return Uint8Array;
  }
}

/** Gives a class fields under the names of its constructor's arguments. */
function record(...names) {
  return class {
    constructor(...values) {
      names.forEach((name, at) => {
        this[name] = values[at];
      });
    }
  };
}

/** A complex number. */
export class Complex extends record('re', 'im') {}

/** A decimal number of any precision, as Python writes it. */
export class Decimal extends record('text') {
  toString() {
    return this.text;
  }
}

/** A universally unique id of 16 bytes. */
export class Uuid extends record('bytes') {
  toString() {
    const digits = Array.from(this.bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
    return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  }
}

/** A path: `kind` is `path` (of the platform), `posix` or `windows`; `bytes` are what it is. */
export class Path extends record('kind', 'bytes') {
  toString() {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this.bytes);
  }
}

const DAY_MS = 86_400_000;

/** A date: days since 1970-01-01. */
export class PlainDate extends record('days') {
  /** The start of the day in UTC. */
  toDate() {
    return new Date(this.days * DAY_MS);
  }

  toString() {
    return this.toDate().toISOString().slice(0, 10);
  }
}

function fraction(micros) {
  return micros === 0n ? '' : `.${String(micros).padStart(6, '0')}`;
}

/** Euclid's division: the rest is never negative. */
function divide(number, divisor) {
  const rest = ((number % divisor) + divisor) % divisor;
  return [(number - rest) / divisor, rest];
}

/** A time zone: `kind` is `utc`, `fixed` (`offsetMicros`, `name` or null) or `iana` (`key`). */
export class Zone extends record('kind', 'offsetMicros', 'name', 'key') {
  /** What follows a time: `Z`, `+01:00`, `[Europe/Berlin]`. */
  toString() {
    if (this.kind !== 'fixed') {
      return this.kind === 'utc' ? 'Z' : `[${this.key}]`;
    }
    const sign = this.offsetMicros < 0n ? '-' : '+';
    const size = this.offsetMicros < 0n ? -this.offsetMicros : this.offsetMicros;
    const text = new Time(size, 0, null).toString();
    return sign + (text.endsWith(':00') ? text.slice(0, 5) : text);
  }
}

/**
 * A date with a time: `micros` since 1970-01-01T00:00 on its own clock, `fold` (1: the second time
 * that a clock set back shows this), `zone` or null.
 */
export class DateTime extends record('micros', 'fold', 'zone') {
  toString() {
    const [seconds, micros] = divide(this.micros, 1_000_000n);
    const date = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
    return `${date}${fraction(micros)}${this.zone ?? ''}`;
  }

  /** The moment, in milliseconds; of a zone with an offset that is known. */
  toDate() {
    if (this.zone === null || this.zone.kind === 'iana') {
      throw new RangeError(`${this} has no known offset from UTC`);
    }
    const utc = this.micros - (this.zone.offsetMicros ?? 0n);
    return new Date(Number(divide(utc, 1000n)[0]));
  }
}

/** A time of day: `micros` since midnight, `fold`, `zone` or null. */
export class Time extends record('micros', 'fold', 'zone') {
  toString() {
    const [seconds, micros] = divide(this.micros, 1_000_000n);
    const [minutes, second] = divide(seconds, 60n);
    const two = (number) => String(number).padStart(2, '0');
    const [hour, minute] = divide(minutes, 60n);
    const clock = `${two(hour)}:${two(minute)}:${two(second)}`;
    return `${clock}${fraction(micros)}${this.zone ?? ''}`;
  }
}

/** A span of time, as Python keeps it: only the days can be negative. */
export class TimeDelta extends record('days', 'seconds', 'micros') {
  /** All of it in microseconds. */
  toMicros() {
    return BigInt(this.days) * 86_400_000_000n + BigInt(this.seconds) * 1_000_000n
      + BigInt(this.micros);
  }
}

/** `Ellipsis` or `NotImplemented`. */
export class Singleton extends record('name') {}

/** A NumPy element type: its array-protocol text (`<f8`), and its size in bytes. */
export class Dtype extends record('text', 'itemsize') {
  toString() {
    return this.text;
  }
}

/** Something that has a name in Python: a type, a class, a function. */
export class Global extends record('name') {}

/** A pickle that was not loaded: `kind` is `pickle` or `cloudpickle`. */
export class Pickle extends record('kind', 'data', 'buffers') {}

/** Arrow data: `kind` and `text` as in docs/formats/values.md, `stream` for `tableFromIPC`. */
export class ArrowData extends record('kind', 'text', 'stream') {}

/** A NumPy array of objects: its shape, and its items in C order. */
export class ObjectArray extends record('shape', 'items') {}

/** The class of an object: `source` says how it is named, `make` how its objects are made. */
export class PloClass extends record('source', 'make', 'name', 'version', 'fields', 'pickle') {}

/**
 * An object of a class: its parts by name. The names are the attributes', or `state`, or for an
 * object that is made by a call `args`, `kwargs`, `state`, `items`, `pairs` and `setter`.
 */
export class PloObject {
  constructor(cls) {
    this.cls = cls;
    this.fields = new Map();
  }
}
