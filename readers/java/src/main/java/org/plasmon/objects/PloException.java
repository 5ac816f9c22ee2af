package org.plasmon.objects;

/** The bytes are not an object in the PLO format, or break one of its rules. */
public final class PloException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  PloException(String message) {
    super(message);
  }

  PloException(String message, Throwable cause) {
    super(message, cause);
  }

  /** The error of a broken rule. */
  static PloException broken(String what, long at) {
    return new PloException("the object is broken: " + what + " at " + at);
  }
}
