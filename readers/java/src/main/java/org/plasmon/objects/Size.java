package org.plasmon.objects;

import java.util.Locale;

/**
 * The numbers from which an object's whole layout follows, in their order. A walk through the
 * columns of its record batch meets them in this order, too.
 */
enum Size {
  SLOTS,
  NULL,
  BOOL,
  INT,
  FLOAT,
  STR,
  BYTES,
  NODE,
  REF,
  TENSOR,
  EXT,
  NODES,
  I32,
  I64,
  F64,
  BITS,
  STRS,
  STRS_BYTES,
  REFS,
  BINS,
  BINS_BYTES,
  CLASSES,
  CLASS_NAME_BYTES,
  CLASS_FIELDS,
  CLASS_FIELD_BYTES,
  DTYPES,
  DTYPE_BYTES,
  TENSORS,
  TENSOR_SHAPE,
  TENSOR_STRIDES,
  EXTS,
  EXT_BYTES,
  EXT_HEAPS,
  HEAP,
  HEAP_BYTES;

  static final Size[] ALL = values();

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
