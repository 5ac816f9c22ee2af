package org.plasmon.objects;

/** The buffers of an object in the order of section 2: how many bytes each has. */
enum Column {
  SLOT_TYPE(Size.SLOTS, 1),
  SLOT_OFFSET(Size.SLOTS, 4),
  SLOT_BOOL(Size.BOOL, Column.BITMAP),
  SLOT_INT(Size.INT, 8),
  SLOT_FLOAT(Size.FLOAT, 8),
  SLOT_STR(Size.STR, 4),
  SLOT_BYTES(Size.BYTES, 4),
  SLOT_NODE(Size.NODE, 4),
  SLOT_REF(Size.REF, 4),
  SLOT_TENSOR(Size.TENSOR, 4),
  SLOT_EXT(Size.EXT, 4),
  NODE_KIND(Size.NODES, 1),
  NODE_ELEM(Size.NODES, 1),
  NODE_ELEM2(Size.NODES, 1),
  NODE_START(Size.NODES, 4),
  NODE_LENGTH(Size.NODES, 4),
  NODE_START2(Size.NODES, 4),
  I32(Size.I32, 4),
  I64(Size.I64, 8),
  F64(Size.F64, 8),
  BITS(Size.BITS, Column.BITMAP),
  STR_OFFSETS(Size.STRS, Column.OFFSETS),
  STR_BYTES(Size.STRS_BYTES, 1),
  REFS(Size.REFS, 4),
  BIN_OFFSETS(Size.BINS, Column.OFFSETS),
  BIN_BYTES(Size.BINS_BYTES, 1),
  CLASS_SOURCE(Size.CLASSES, 1),
  CLASS_MAKE(Size.CLASSES, 1),
  NAME_OFFSETS(Size.CLASSES, Column.OFFSETS),
  NAME_BYTES(Size.CLASS_NAME_BYTES, 1),
  CLASS_VERSION(Size.CLASSES, 4),
  FIELD_OFFSETS(Size.CLASSES, Column.OFFSETS),
  FIELD_NAME_OFFSETS(Size.CLASS_FIELDS, Column.OFFSETS),
  FIELD_NAME_BYTES(Size.CLASS_FIELD_BYTES, 1),
  CLASS_EXT(Size.CLASSES, 4),
  DTYPE_OFFSETS(Size.DTYPES, Column.OFFSETS),
  DTYPE_BYTES(Size.DTYPE_BYTES, 1),
  DTYPE_ITEMSIZE(Size.DTYPES, 4),
  TENSOR_KIND(Size.TENSORS, 1),
  TENSOR_DTYPE(Size.TENSORS, 4),
  SHAPE_OFFSETS(Size.TENSORS, Column.OFFSETS),
  SHAPE(Size.TENSOR_SHAPE, 8),
  STRIDE_OFFSETS(Size.TENSORS, Column.OFFSETS),
  STRIDES(Size.TENSOR_STRIDES, 8),
  TENSOR_HEAP(Size.TENSORS, 4),
  TENSOR_OFFSET(Size.TENSORS, 8),
  EXT_KIND(Size.EXTS, 1),
  DATA_OFFSETS(Size.EXTS, Column.OFFSETS),
  DATA_BYTES(Size.EXT_BYTES, 1),
  HEAPS_OFFSETS(Size.EXTS, Column.OFFSETS),
  HEAPS(Size.EXT_HEAPS, 4),
  HEAP_OFFSETS(Size.HEAP, Column.LONG_OFFSETS),
  HEAP(Size.HEAP_BYTES, 1);

  static final Column[] ALL = values();

  // Special widths.
  private static final int BITMAP = 0;
  private static final int OFFSETS = -4;
  private static final int LONG_OFFSETS = -8;

  private final Size size;
  private final int width;

  Column(Size size, int width) {
    this.size = size;
    this.width = width;
  }

  /** How many bytes the buffer has in an object of these sizes. */
  long bytes(long[] sizes) {
    long count = sizes[size.ordinal()];
    if (width == BITMAP) {
      return (count + 7) / 8;
    }
    if (width > 0) {
      return width * count;
    }
    return count == 0 ? 0 : -width * (count + 1);
  }
}
