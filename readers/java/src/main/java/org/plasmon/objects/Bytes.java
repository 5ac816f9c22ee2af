package org.plasmon.objects;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;

/** Python's bytes: immutable, equal when their bytes are. */
public final class Bytes {
  private final ByteBuffer buffer;

  Bytes(ByteBuffer buffer) {
    this.buffer = buffer;
  }

  /** How many bytes there are. */
  public int size() {
    return buffer.capacity();
  }

  /** The byte at an index. */
  public byte get(int index) {
    return buffer.get(index);
  }

  /** A read-only view of the bytes, little-endian. */
  public ByteBuffer asByteBuffer() {
    return buffer.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** A copy of the bytes. */
  public byte[] toArray() {
    byte[] copy = new byte[buffer.capacity()];
    buffer.get(0, copy);
    return copy;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Bytes bytes && buffer.equals(bytes.buffer);
  }

  @Override
  public int hashCode() {
    return buffer.hashCode();
  }

  @Override
  public String toString() {
    return "Bytes[" + HexFormat.of().formatHex(toArray()) + "]";
  }
}
