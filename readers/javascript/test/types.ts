// Compiled, never run: the declarations fit how a program uses them.

import { DateTime, PloError, PloObject, type PloValue, Tensor, read } from '../src/index.js';

export function sum(data: Uint8Array): number {
  const value: PloValue = read(data, { bigint: false });
  if (value instanceof Tensor) {
    return [...value.toTypedArray()].reduce<number>((total, next) => total + Number(next), 0);
  }
  if (value instanceof Map) {
    return [...value.keys()].length;
  }
  if (value instanceof PloObject) {
    return value.cls.fields.length + value.fields.size;
  }
  if (value instanceof DateTime) {
    return value.toDate().getTime() + (value.zone?.name?.length ?? 0);
  }
  throw new PloError('no numbers');
}
