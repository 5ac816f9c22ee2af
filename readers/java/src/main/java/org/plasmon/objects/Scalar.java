package org.plasmon.objects;

/** A NumPy scalar: its element type and its bytes. */
public record Scalar(Dtype dtype, Bytes bytes) {
  /** The value, as {@link Tensor#get} has it. */
  public Object value() {
    return Elements.read(dtype, bytes.asByteBuffer(), 0);
  }
}
