package org.plasmon.objects;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** The elements of tensors, by NumPy's array-protocol strings. */
final class Elements {
  private static final String UNSIGNED_LETTERS = "BHILQNP";

  private Elements() {}

  /**
   * An element: Boolean, Long, BigInteger (past Long), Double, Complex, String for {@code U}, Bytes
   * for {@code S} and for what Java has nothing for. NumPy's dates and spans are their counts.
   */
  static Object read(Dtype dtype, ByteBuffer memory, int at) {
    String text = dtype.text().length() == 1 ? ofStruct(dtype) : dtype.text();
    ByteOrder order = text.startsWith(">") ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;
    ByteBuffer bytes = memory.slice(at, dtype.itemsize()).order(order);
    char kind = text.length() > 1 && !text.startsWith("[") ? text.charAt(1) : 'V';
    int size = dtype.itemsize();
    return switch (kind) {
      case 'b' -> bytes.get(0) != 0;
      case 'i', 'M', 'm' -> size > 8 ? new Bytes(bytes) : (Object) signed(bytes, size);
      case 'u' -> size > 8 ? new Bytes(bytes) : unsigned(bytes, size);
      case 'f' -> size > 8 ? new Bytes(bytes) : (Object) real(bytes, 0, size);
      case 'c' -> size > 16
          ? new Bytes(bytes)
          : new Complex(real(bytes, 0, size / 2), real(bytes, size / 2, size / 2));
      case 'U' -> utf32(bytes);
      case 'S' -> new Bytes(bytes.slice(0, lengthOf(bytes)));
      default -> new Bytes(bytes);
    };
  }

  /** NumPy's text of a letter of Python's struct module. */
  private static String ofStruct(Dtype dtype) {
    char letter = dtype.text().charAt(0);
    String kind =
        switch (letter) {
          case '?' -> "b";
          case 'c' -> "S";
          case 'e', 'f', 'd' -> "f";
          default -> UNSIGNED_LETTERS.indexOf(letter) >= 0 ? "u" : "i";
        };
    return "<" + kind + dtype.itemsize();
  }

  private static long signed(ByteBuffer bytes, int size) {
    return switch (size) {
      case 1 -> bytes.get(0);
      case 2 -> bytes.getShort(0);
      case 4 -> bytes.getInt(0);
      default -> bytes.getLong(0);
    };
  }

  private static Object unsigned(ByteBuffer bytes, int size) {
    long value = signed(bytes, size);
    if (size < 8) {
      return value & (1L << 8 * size) - 1;
    }
    return value >= 0
        ? (Object) value
        : BigInteger.valueOf(value).add(BigInteger.ONE.shiftLeft(Long.SIZE));
  }

  private static double real(ByteBuffer bytes, int at, int size) {
    return switch (size) {
      case 2 -> half(bytes.getShort(at));
      case 4 -> bytes.getFloat(at);
      default -> bytes.getDouble(at);
    };
  }

  private static double half(short bits) {
    int exponent = bits >> 10 & 0x1f;
    int fraction = bits & 0x3ff;
    double size;
    if (exponent == 0x1f) {
      size = fraction == 0 ? Double.POSITIVE_INFINITY : Double.NaN;
    } else if (exponent == 0) {
      size = Math.scalb((double) fraction, -24);
    } else {
      size = Math.scalb(fraction + 1024.0, exponent - 25);
    }
    return bits < 0 ? -size : size;
  }

  private static String utf32(ByteBuffer bytes) {
    StringBuilder text = new StringBuilder();
    int end = bytes.capacity() / 4;
    while (end > 0 && bytes.getInt(4 * (end - 1)) == 0) {
      end--;
    }
    for (int at = 0; at < end; at++) {
      int code = bytes.getInt(4 * at);
      text.appendCodePoint(Character.isValidCodePoint(code) ? code : 0xfffd);
    }
    return text.toString();
  }

  /** The length without NumPy's padding. */
  private static int lengthOf(ByteBuffer bytes) {
    int end = bytes.capacity();
    while (end > 0 && bytes.get(end - 1) == 0) {
      end--;
    }
    return end;
  }
}
