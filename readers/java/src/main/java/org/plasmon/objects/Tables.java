package org.plasmon.objects;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The tables of an object where they lie, by column. Every access is checked by its buffer. */
final class Tables {
  static final long ENTRIES_MAX = Integer.MAX_VALUE;

  private final long[] sizes;
  private final ByteBuffer[] columns;

  Tables(long[] sizes, ByteBuffer[] columns) {
    this.sizes = sizes;
    this.columns = columns;
    for (ByteBuffer column : columns) {
      column.order(ByteOrder.LITTLE_ENDIAN);
    }
  }

  /** Throws unless the sizes are within the limits of the format. */
  static void checkSizes(long[] sizes) {
    for (Size size : Size.ALL) {
      long found = sizes[size.ordinal()];
      if (found < 0 || found > ENTRIES_MAX) {
        throw new PloException(found + " " + size + " are more than this reader takes");
      }
    }
  }

  /** How many entries or bytes there are of something. */
  int count(Size size) {
    return (int) sizes[size.ordinal()];
  }

  int u8(Column column, int index) {
    return columns[column.ordinal()].get(index) & 0xff;
  }

  int i32(Column column, int index) {
    return columns[column.ordinal()].getInt(Math.multiplyExact(4, index));
  }

  long i64(Column column, int index) {
    return columns[column.ordinal()].getLong(Math.multiplyExact(8, index));
  }

  double f64(Column column, int index) {
    return columns[column.ordinal()].getDouble(Math.multiplyExact(8, index));
  }

  boolean bit(Column column, int index) {
    return (u8(column, index >> 3) >> (index & 7) & 1) != 0;
  }

  /** A stretch of a column of bytes. */
  ByteBuffer bytes(Column column, long start, long end) {
    ByteBuffer slice = columns[column.ordinal()].slice((int) start, (int) (end - start));
    return slice.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** The bytes of an entry of a column with offsets. */
  ByteBuffer text(Column offsets, Column bytes, int index) {
    return bytes(bytes, i32(offsets, index), i32(offsets, index + 1));
  }

  /** How many numbers a column of offsets has. */
  int offsetCount(Column offsets, int width) {
    return columns[offsets.ordinal()].capacity() / width;
  }
}
