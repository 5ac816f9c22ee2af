// Reads Python objects in the PLO format (spec/objects.md of Plasmon).
//
//     bytes ── buffers ──► tables ── check ──► tables that keep every rule ── build ──► the value
//              (apache-arrow reads the stream form; the small form is cut up)

import { Build } from './build.js';
import { small, stream } from './buffers.js';
import { check } from './check.js';
import { PloError } from './values.js';

export { Scalar, Tensor } from './tensors.js';
export * from './values.js';

const ALIGN = 8;

/** The value of the object at the front of `data`. See index.d.ts for what comes back as what. */
export function read(data, options = {}) {
  let bytes = ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
  // Typed arrays need their place; Node's small buffers lie anywhere.
  if (bytes.byteOffset % ALIGN !== 0) {
    bytes = bytes.slice();
  }
  const isSmall = String.fromCharCode(...bytes.subarray(0, 4)) === 'PLO1';
  let tables;
  try {
    tables = isSmall ? small(bytes) : stream(bytes);
  } catch (error) {
    if (error instanceof PloError) {
      throw error;
    }
    throw new PloError(`the object is broken: ${error.message}`, { cause: error });
  }
  check(tables);
  return new Build(tables, options).run();
}
