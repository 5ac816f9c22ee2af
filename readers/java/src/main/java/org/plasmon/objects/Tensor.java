package org.plasmon.objects;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongConsumer;

/**
 * An array of any element type: a shape and strides (in bytes) over read-only memory, which tensors
 * share that shared it in Python.
 */
public final class Tensor {
  /** What the array was in Python. */
  public enum Kind {
    /** A NumPy array; the text of its element type is NumPy's. */
    NUMPY,
    /** A memoryview; its element type is one letter of Python's struct module. */
    MEMORYVIEW,
    /** The shape of an array of objects; internal. */
    SHAPE
  }

  private final Kind kind;
  private final Dtype dtype;
  private final long[] shape;
  private final long[] strides;
  private final ByteBuffer memory;
  private final long offset;

  Tensor(
      Kind kind, Dtype dtype, long[] shape, long[] strides, ByteBuffer memory, long offset) {
    this.kind = kind;
    this.dtype = dtype;
    this.shape = shape;
    this.strides = strides;
    this.memory = memory;
    this.offset = offset;
  }

  /** What the array was. */
  public Kind kind() {
    return kind;
  }

  /** The element type. */
  public Dtype dtype() {
    return dtype;
  }

  /** The extent of each dimension. */
  public long[] shape() {
    return shape.clone();
  }

  /** The distance in bytes between neighbours in each dimension. */
  public long[] strides() {
    return strides.clone();
  }

  /** The memory, read-only and little-endian; the element at index 0 is at {@link #offset}. */
  public ByteBuffer memory() {
    return memory.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Where in the memory the element at index 0 lies. */
  public long offset() {
    return offset;
  }

  /** How many elements there are. */
  public long size() {
    return Arrays.stream(shape).anyMatch(extent -> extent == 0)
        ? 0
        : Arrays.stream(shape).reduce(1, Math::multiplyExact);
  }

  /**
   * The element at an index for each dimension: Boolean, Long, BigInteger (past Long), Double,
   * {@link Complex}, String, {@link Bytes} for what Java has nothing for. NumPy's dates and spans
   * are their counts.
   */
  public Object get(long... index) {
    if (index.length != shape.length) {
      throw new IndexOutOfBoundsException(shape.length + " indices are needed");
    }
    long at = offset;
    for (int dimension = 0; dimension < shape.length; dimension++) {
      at += java.util.Objects.checkIndex(index[dimension], shape[dimension]) * strides[dimension];
    }
    return Elements.read(dtype, memory, (int) at);
  }

  /** The elements in C order. */
  public List<Object> toList() {
    List<Object> list = new ArrayList<>();
    forEachOffset(at -> list.add(Elements.read(dtype, memory, (int) at)));
    return list;
  }

  /** The elements in C order as doubles; of a type of real numbers. */
  public double[] toDoubleArray() {
    double[] array = new double[Math.toIntExact(size())];
    int[] next = {0};
    forEachOffset(
        at -> {
          Number number = (Number) Elements.read(dtype, memory, (int) at);
          array[next[0]++] = number.doubleValue();
        });
    return array;
  }

  /** The bytes of the elements in C order, read-only: a view where they lie so, else a copy. */
  public ByteBuffer toByteBuffer() {
    int bytes = Math.toIntExact(Math.multiplyExact(size(), (long) dtype.itemsize()));
    ByteBuffer packed;
    if (isContiguous()) {
      packed = memory.slice((int) offset, bytes);
    } else {
      packed = ByteBuffer.allocate(bytes);
      forEachOffset(at -> packed.put(memory.slice((int) at, dtype.itemsize())));
      packed.flip();
    }
    return packed.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Whether the elements lie in C order without gaps. */
  public boolean isContiguous() {
    long wanted = dtype.itemsize();
    for (int dimension = shape.length - 1; dimension >= 0; dimension--) {
      if (shape[dimension] != 1 && strides[dimension] != wanted) {
        return size() == 0;
      }
      wanted *= shape[dimension];
    }
    return true;
  }

  private void forEachOffset(LongConsumer visitor) {
    if (size() == 0) {
      return;
    }
    long[] index = new long[shape.length];
    long at = offset;
    while (true) {
      visitor.accept(at);
      int dimension = shape.length - 1;
      while (dimension >= 0 && index[dimension] == shape[dimension] - 1) {
        at -= index[dimension] * strides[dimension];
        index[dimension--] = 0;
      }
      if (dimension < 0) {
        return;
      }
      index[dimension]++;
      at += strides[dimension];
    }
  }
}
