package org.plasmon.objects;

import java.nio.ByteBuffer;

/** The small form: a header of 16 bytes and the sizes, from which the buffers' places follow. */
final class SmallForm {
  private static final int MAGIC = 'P' | 'L' << 8 | 'O' << 16 | '1' << 24;
  private static final int HEADER_BYTES = 16;
  private static final int ALIGN = 8;
  private static final int HEAP_ALIGN = 64;

  private SmallForm() {}

  static boolean is(ByteBuffer object) {
    return object.capacity() >= Integer.BYTES && object.getInt(0) == MAGIC;
  }

  static Tables read(ByteBuffer object) {
    if (object.capacity() < HEADER_BYTES) {
      throw PloException.cutOff(HEADER_BYTES, object.capacity());
    }
    long length = Integer.toUnsignedLong(object.getInt(4));
    long present = object.getLong(8);
    if (present >>> Size.ALL.length != 0) {
      throw new PloException("the object has sizes that are not known");
    }
    long least = Math.max(length, HEADER_BYTES + 4L * Long.bitCount(present));
    if (least > object.capacity()) {
      throw PloException.cutOff(least, object.capacity());
    }
    long[] sizes = new long[Size.ALL.length];
    int end = HEADER_BYTES;
    for (int number = 0; number < sizes.length; number++) {
      if ((present >>> number & 1) != 0) {
        sizes[number] = Integer.toUnsignedLong(object.getInt(end));
        end += 4;
        if (sizes[number] == 0) {
          throw new PloException(Size.ALL[number] + " are 0 and marked as present");
        }
      }
    }
    Tables.checkSizes(sizes);
    return new Tables(sizes, columns(object, sizes, end, length));
  }

  private static ByteBuffer[] columns(ByteBuffer object, long[] sizes, long start, long length) {
    ByteBuffer[] columns = new ByteBuffer[Column.ALL.length];
    long end = start;
    for (Column column : Column.ALL) {
      long bytes = column.bytes(sizes);
      end = roundUp(end, column == Column.HEAP && bytes > 0 ? HEAP_ALIGN : ALIGN);
      if (end + bytes > length) {
        throw new PloException("the object's length is " + length + ", its parts have more");
      }
      columns[column.ordinal()] = object.slice((int) end, (int) bytes);
      end += bytes;
    }
    if (roundUp(end, ALIGN) != length) {
      throw new PloException("the object's length is " + length + ", its parts have " + end);
    }
    return columns;
  }

  private static long roundUp(long number, int multiple) {
    return (number + multiple - 1) / multiple * multiple;
  }
}
