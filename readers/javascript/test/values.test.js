// What the values can do that JavaScript has no type for.

import assert from 'node:assert/strict';
import test from 'node:test';

import * as plo from '../src/index.js';
import { integer } from '../src/tensors.js';

function tensor(text, itemsize, numbers, shape = [numbers.length], strides = undefined) {
  const memory = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  const packed = shape.map((_, at) => shape.slice(at + 1).reduce((a, b) => a * b, itemsize));
  return new plo.Tensor('numpy', new plo.Dtype(text, itemsize), shape, strides ?? packed, memory, 0);
}

test('elements of every type of numbers', () => {
  const cases = [
    ['|i1', Int8Array.of(-1, 2)], ['|u1', Uint8Array.of(1, 255)],
    ['<i2', Int16Array.of(-1, 2)], ['<u2', Uint16Array.of(1, 65535)],
    ['<i4', Int32Array.of(-1, 2)], ['<u4', Uint32Array.of(1, 2 ** 32 - 1)],
    ['<f4', Float32Array.of(1.5, NaN)], ['<f8', Float64Array.of(-0, Infinity)],
  ];
  for (const [text, numbers] of cases) {
    const read = tensor(text, numbers.BYTES_PER_ELEMENT, numbers);
    assert.deepEqual(read.toArray(), [...numbers], text);
    assert.deepEqual(read.toTypedArray(), numbers);
    assert.equal(read.toTypedArray().buffer, numbers.buffer, 'a view');
  }
});

test('64-bit integers are numbers where that is exact', () => {
  const edge = 2n ** 53n;
  assert.equal(integer(edge - 1n), 2 ** 53 - 1);
  assert.equal(integer(edge), edge);
  assert.equal(integer(-edge + 1n), -(2 ** 53) + 1);
  assert.equal(integer(-edge - 1n), -edge - 1n);
  const read = tensor('<i8', 8, BigInt64Array.of(-5n, edge));
  assert.deepEqual(read.toArray(), [-5, edge]);
});

test('half floats', () => {
  const read = tensor('<f2', 2, Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x7c00, 0xfc00, 0x7bff));
  assert.deepEqual(read.toArray(), [1, -2, 2 ** -24, Infinity, -Infinity, 65504]);
  assert.throws(() => read.toTypedArray(), TypeError);
});

test('big-endian numbers, strings, complex numbers, dates, bytes', () => {
  assert.deepEqual(tensor('>i2', 2, Uint8Array.of(1, 0, 255, 255), [2]).toArray(), [256, -1]);
  assert.deepEqual(tensor('<U2', 8, Uint32Array.of(97, 0, 0x1f600, 98), [2]).toArray(), ['a', '😀b']);
  assert.deepEqual(tensor('<c16', 16, Float64Array.of(1, -2), [1]).get(0), new plo.Complex(1, -2));
  assert.deepEqual(tensor('<M8[ns]', 8, BigInt64Array.of(7n)).toArray(), [7]);
  assert.deepEqual(tensor('|S2', 2, Uint8Array.of(97, 0), [1]).get(0), Uint8Array.of(97));
  assert.deepEqual(tensor('|V2', 2, Uint8Array.of(97, 0), [1]).get(0), Uint8Array.of(97, 0));
});

test('strides of any kind', () => {
  const numbers = Int32Array.from({ length: 6 }, (_, at) => at);
  const turned = tensor('<i4', 4, numbers, [3, 2], [4, 12]);
  assert.equal(turned.isContiguous, false);
  assert.deepEqual(turned.toArray(), [[0, 3], [1, 4], [2, 5]]);
  assert.deepEqual([...turned.toTypedArray()], [0, 3, 1, 4, 2, 5]);
  assert.equal(turned.get(2, 1), 5);
  assert.throws(() => turned.get(3, 0), RangeError);
  assert.throws(() => turned.get(0), RangeError);
  const empty = tensor('<i4', 4, new Int32Array(0), [0, 2]);
  assert.deepEqual([empty.toArray(), empty.toFlatArray()], [[], []]);
});

test('dates and times as text, and as Date', () => {
  const micros = 1_577_934_245_000_006n;
  const zone = new plo.Zone('fixed', 3_600_000_000n, null, null);
  const moment = new plo.DateTime(micros, 0, zone);
  assert.equal(String(moment), '2020-01-02T03:04:05.000006+01:00');
  assert.equal(moment.toDate().toISOString(), '2020-01-02T02:04:05.000Z');
  assert.equal(String(new plo.DateTime(-1n, 0, null)), '1969-12-31T23:59:59.999999');
  assert.throws(() => new plo.DateTime(micros, 0, null).toDate(), RangeError);
  assert.equal(String(new plo.PlainDate(-1)), '1969-12-31');
  assert.equal(new plo.TimeDelta(-1, 2, 3).toMicros(), -86_397_999_997n);
});

test('tuples and bytearrays are arrays whose methods give plain ones', () => {
  const doubled = plo.Tuple.from([1, 2]).map((n) => 2 * n);
  assert.deepEqual([doubled, doubled.constructor], [[2, 4], Array]);
});
