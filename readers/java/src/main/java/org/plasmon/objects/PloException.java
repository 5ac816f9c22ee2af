package org.plasmon.objects;

/** The bytes are not an object in the PLO format, or break one of its rules. */
public final class PloException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** What is wrong, with the names of section 8 of the specification. */
  public enum Code {
    /** The bytes start with neither form of an object. */
    NOT_AN_OBJECT,
    /** The bytes end before the object does. */
    TRUNCATED,
    /** A rule of the format is broken. */
    BROKEN
  }

  private final Code code;

  PloException(String message) {
    this(message, Code.BROKEN);
  }

  PloException(String message, Code code) {
    super(message);
    this.code = code;
  }

  PloException(String message, Throwable cause) {
    super(message, cause);
    code = Code.BROKEN;
  }

  /** What is wrong. */
  public Code code() {
    return code;
  }

  /** The error of bytes that end before the object does. */
  static PloException cutOff(long wanted, long found) {
    return new PloException(
        "the object is cut off: it has " + wanted + " bytes, and " + found + " are there",
        Code.TRUNCATED);
  }

  /** The error of a broken rule. */
  static PloException broken(String what, long at) {
    return new PloException("the object is broken: " + what + " at " + at);
  }
}
