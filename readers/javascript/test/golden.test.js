// Every golden vector is what its description says; damaged ones are refused, or are a value.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

import { messages } from '../scripts/messages.js';
import { PloError, read } from '../src/index.js';
import { Matching } from './matching.js';

const SPEC = process.env.PLO_VECTORS
  ? new URL(`file://${process.env.PLO_VECTORS}/`)
  : new URL('../../../spec/objects/', import.meta.url);
const MUTATIONS = 4000;
const MUTATED_BYTES_MAX = 50_000;

const vectors = readdirSync(SPEC).filter((name) => name.endsWith('.plo')).sort();

test('there are vectors', () => assert.ok(vectors.length > 0));

for (const vector of vectors) {
  test(vector, () => {
    const name = vector.replace(/(\.small|\.stream)?\.plo$/, '.json');
    const want = JSON.parse(readFileSync(new URL(name, SPEC), 'utf8'));
    const bytes = readFileSync(new URL(vector, SPEC));
    new Matching().match(read(bytes, { bigint: true }), want);
    // The place of the bytes in their ArrayBuffer doesn't matter.
    const moved = new Uint8Array(bytes.length + 3);
    moved.set(bytes, 3);
    new Matching().match(read(moved.subarray(3), { bigint: true }), want);
    read(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  });
}

const hostile = readdirSync(new URL('hostile/', SPEC)).filter((name) => name.endsWith('.plo'));

test('there are hostile vectors', () => assert.ok(hostile.length > 100));

for (const vector of hostile) {
  test(`hostile: ${vector}`, () => {
    const want = JSON.parse(readFileSync(new URL(`hostile/${vector.replace('.plo', '.json')}`, SPEC)));
    const bytes = readFileSync(new URL(`hostile/${vector}`, SPEC));
    if (want.only_makers) {
      read(bytes);
      return;
    }
    assert.throws(() => read(bytes), (error) => error instanceof PloError
      && error.code === want.error && error.message.length > 10);
  });
}

/** Random numbers that a seed repeats: a linear congruence modulo 2^32. */
function numbers(seed) {
  let state = seed >>> 0;
  return (most) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

test('damaged vectors are refused or are values', () => {
  const seed = Number(process.env.SEED ?? 20261120);
  const random = numbers(seed);
  const all = vectors.map((vector) => readFileSync(new URL(vector, SPEC)))
    .filter((bytes) => bytes.length <= MUTATED_BYTES_MAX);
  let refused = 0;
  for (let round = 0; round < MUTATIONS; round += 1) {
    let bytes = Uint8Array.from(all[random(all.length)]);
    if (random(10) === 0) {
      bytes = bytes.slice(0, random(bytes.length));
    } else {
      for (let count = 1 + random(3); count > 0; count -= 1) {
        bytes[random(bytes.length)] = [0, 1, 127, 255, random(256)][random(5)];
      }
    }
    try {
      read(bytes);
    } catch (error) {
      assert.ok(error instanceof PloError, `SEED=${seed}, round ${round}: ${error.stack}`);
      refused += 1;
    }
  }
  assert.ok(refused > MUTATIONS / 4, `${refused} refused`);
});

test('other bytes are refused', () => {
  for (const bytes of [[], [80, 76, 79, 49], Array(64).fill(0), Array(7000).fill(255)]) {
    assert.throws(() => read(Uint8Array.from(bytes)), PloError);
  }
});

test('src/messages.js is made of the specification', () => {
  const made = readFileSync(new URL('../src/messages.js', import.meta.url), 'utf8');
  assert.equal(made, messages(), 'run npm run messages');
});
