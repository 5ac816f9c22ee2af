package org.plasmon.objects;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Reads Python objects in the PLO format (spec/objects.md).
 *
 * <pre>
 * bytes ── SmallForm, StreamForm ──► Tables ── Checker ──► Tables that keep every rule
 *                                                             └── Builder ──► the value
 * </pre>
 *
 * <p>What comes back: null, Boolean, Long, {@link java.math.BigInteger}, Double, String, {@link
 * Bytes}, {@code byte[]} (bytearray), {@link java.util.ArrayList}, {@link Tuple}, {@link
 * java.util.LinkedHashMap}, {@link java.util.LinkedHashSet}, {@link FrozenSet}, {@link Tensor},
 * {@link java.time.LocalDate}, {@link java.time.LocalDateTime} or {@link PyDateTime}, {@link
 * java.time.LocalTime} or {@link PyTime}, {@link java.time.Duration}, {@link PyZone}, {@link
 * java.math.BigDecimal} or {@link DecimalText}, {@link java.util.UUID}, {@link Complex}, {@link
 * PyPath}, {@link Scalar}, {@link Dtype}, {@link ArrowData}, {@link ObjectArray}, {@link
 * Singleton}; objects of classes as {@link PloObject}, whatever would have to be imported or
 * unpickled as {@link Global} and {@link Pickle}.
 *
 * <p>What is shared in Python is shared here, cycles too, and depth has no limit.
 */
public final class Plo {
  private Plo() {}

  /**
   * The value of the object at the front of {@code bytes}. Tensors and bytes are views of the
   * array: it must stay as it is.
   *
   * @throws PloException when a rule of the format is broken
   */
  public static Object read(byte[] bytes) {
    return read(ByteBuffer.wrap(bytes));
  }

  /**
   * The value of the object between the buffer's position and its limit. Tensors and bytes are
   * views of the buffer: it must stay as it is.
   *
   * @throws PloException when a rule of the format is broken
   */
  public static Object read(ByteBuffer bytes) {
    ByteBuffer object = bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
    try {
      Tables tables = SmallForm.is(object) ? SmallForm.read(object) : StreamForm.read(object);
      Checker.check(tables);
      return new Builder(tables).build();
    } catch (IndexOutOfBoundsException
        | BufferUnderflowException
        | IllegalArgumentException
        | IllegalStateException
        | ArithmeticException error) {
      throw new PloException("the object is broken: " + error.getMessage(), error);
    }
  }}
