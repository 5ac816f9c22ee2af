package org.plasmon.objects;

import static org.plasmon.objects.PloException.broken;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The values without parts, each made once: what is mentioned twice stays one. */
final class Leaves {
  private static final int DIMENSIONS_MAX = 64;
  private static final int HEAP_ALIGN = 64;

  private final Tables tables;
  private int heapBefore = -1;

  final List<String> strs = new ArrayList<>();
  final List<Bytes> bins = new ArrayList<>();
  final List<Tensor> tensors = new ArrayList<>();
  final List<Object> exts = new ArrayList<>();
  final List<PloClass> classes = new ArrayList<>();
  private final List<Dtype> dtypes = new ArrayList<>();

  Leaves(Tables tables) {
    this.tables = tables;
    for (int index = 0; index < tables.count(Size.STRS); index++) {
      strs.add(Utf8.decode(tables.text(Column.STR_OFFSETS, Column.STR_BYTES, index)));
    }
    for (int index = 0; index < tables.count(Size.BINS); index++) {
      bins.add(new Bytes(tables.text(Column.BIN_OFFSETS, Column.BIN_BYTES, index)));
    }
    for (int index = 0; index < tables.count(Size.DTYPES); index++) {
      int itemsize = tables.i32(Column.DTYPE_ITEMSIZE, index);
      if (itemsize < 0) {
        throw broken("an element type of a negative size", index);
      }
      ByteBuffer text = tables.text(Column.DTYPE_OFFSETS, Column.DTYPE_BYTES, index);
      dtypes.add(new Dtype(Utf8.decode(text), itemsize));
    }
    for (int index = 0; index < tables.count(Size.TENSORS); index++) {
      tensors.add(tensor(index));
    }
    for (int index = 0; index < tables.count(Size.EXTS); index++) {
      exts.add(ext(index));
    }
    for (int index = 0; index < tables.count(Size.CLASSES); index++) {
      classes.add(plasmonClass(index));
    }
  }

  /** The bytes of a heap entry. */
  private ByteBuffer entry(int index) {
    if (index < 0 || index >= tables.count(Size.HEAP)) {
      throw broken("a heap entry that is not there", index);
    }
    long start = tables.i64(Column.HEAP_OFFSETS, index);
    return tables.bytes(Column.HEAP, start, tables.i64(Column.HEAP_OFFSETS, index + 1));
  }

  private long[] longs(Column offsets, Column values, int index) {
    int start = tables.i32(offsets, index);
    long[] found = new long[tables.i32(offsets, index + 1) - start];
    Arrays.setAll(found, at -> tables.i64(values, start + at));
    return found;
  }

  private Tensor tensor(int index) {
    int kind = tables.u8(Column.TENSOR_KIND, index);
    Dtype dtype = dtypes.get(tables.i32(Column.TENSOR_DTYPE, index));
    long[] shape = longs(Column.SHAPE_OFFSETS, Column.SHAPE, index);
    long[] strides = longs(Column.STRIDE_OFFSETS, Column.STRIDES, index);
    boolean isNegative = Arrays.stream(shape).anyMatch(extent -> extent < 0);
    if (kind > Tensor.Kind.SHAPE.ordinal() || shape.length > DIMENSIONS_MAX || isNegative) {
      throw broken("a tensor of an unknown kind or shape", index);
    }
    boolean isEmpty =
        kind == Tensor.Kind.SHAPE.ordinal() || Arrays.stream(shape).anyMatch(n -> n == 0);
    if (strides.length == 0) {
      strides = packed(shape, isEmpty ? 0 : dtype.itemsize());
    }
    if (strides.length != shape.length) {
      throw broken("a tensor with other strides than extents", index);
    }
    int heap = tables.i32(Column.TENSOR_HEAP, index);
    if (kind == Tensor.Kind.SHAPE.ordinal() && heap != -1) {
      throw broken("the shape of an array of objects with bytes", index);
    }
    ByteBuffer memory = heap == -1 ? ByteBuffer.allocate(0) : entry(heap);
    long first = tables.i64(Column.TENSOR_OFFSET, index);
    long offset = first;
    long end = Math.addExact(first, isEmpty ? 0 : dtype.itemsize());
    for (int dimension = 0; !isEmpty && dimension < shape.length; dimension++) {
      long reach = Math.multiplyExact(shape[dimension] - 1, strides[dimension]);
      first = Math.addExact(first, Math.min(0, reach));
      end = Math.addExact(end, Math.max(0, reach));
    }
    if (first < 0 || end > memory.capacity()) {
      throw broken("a tensor that reaches outside of its heap entry", index);
    }
    return new Tensor(Tensor.Kind.values()[kind], dtype, shape, strides, memory, offset);
  }

  /** The strides of C order. */
  private static long[] packed(long[] shape, int itemsize) {
    long[] strides = new long[shape.length];
    long stride = itemsize;
    for (int dimension = shape.length - 1; dimension >= 0; dimension--) {
      strides[dimension] = stride;
      stride = Math.multiplyExact(stride, shape[dimension]);
    }
    return strides;
  }

  private PloClass plasmonClass(int index) {
    List<String> fields = new ArrayList<>();
    int end = tables.i32(Column.FIELD_OFFSETS, index + 1);
    for (int field = tables.i32(Column.FIELD_OFFSETS, index); field < end; field++) {
      ByteBuffer name = tables.text(Column.FIELD_NAME_OFFSETS, Column.FIELD_NAME_BYTES, field);
      fields.add(Utf8.decode(name));
    }
    PloClass.Source source = PloClass.Source.values()[tables.u8(Column.CLASS_SOURCE, index)];
    Pickle pickle = null;
    if (source == PloClass.Source.PICKLED) {
      if (!(exts.get(tables.i32(Column.CLASS_EXT, index)) instanceof Pickle found)) {
        throw broken("a class that is pickled as something else", index);
      }
      pickle = found;
    }
    return new PloClass(
        source,
        PloClass.Make.values()[tables.u8(Column.CLASS_MAKE, index)],
        Utf8.decode(tables.text(Column.NAME_OFFSETS, Column.NAME_BYTES, index)),
        tables.i32(Column.CLASS_VERSION, index),
        List.copyOf(fields),
        pickle);
  }

  private Object ext(int index) {
    int kind = tables.u8(Column.EXT_KIND, index);
    ByteBuffer data = tables.text(Column.DATA_OFFSETS, Column.DATA_BYTES, index);
    int start = tables.i32(Column.HEAPS_OFFSETS, index);
    int count = tables.i32(Column.HEAPS_OFFSETS, index + 1) - start;
    if (!Extensions.mayHave(kind, count) || data.capacity() < 8L * count) {
      throw broken("an extension of kind " + kind + " with " + count + " heap entries", index);
    }
    List<Bytes> entries = new ArrayList<>();
    for (int at = 0; at < count; at++) {
      int heap = tables.i32(Column.HEAPS, start + at);
      ByteBuffer entry = entry(heap);
      long length = data.getLong(8 * at);
      // A length that is past any memory does not fit its entry either, rounded up or not.
      long taken = (length + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
      if (heap <= heapBefore || length < 0 || taken != entry.capacity()) {
        throw broken("heap entries of extensions that do not rise, or of another length", index);
      }
      heapBefore = heap;
      entries.add(new Bytes(entry.slice(0, (int) length)));
    }
    ByteBuffer rest = data.slice(8 * count, data.capacity() - 8 * count).order(data.order());
    return Extensions.read(kind, rest, entries, dtypes);
  }
}
