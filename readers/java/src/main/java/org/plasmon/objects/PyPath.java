package org.plasmon.objects;

import java.nio.charset.StandardCharsets;

/** A path. Its bytes are what it is; they need not be UTF-8. */
public record PyPath(Kind kind, Bytes bytes) {
  /** Whose path it is. */
  public enum Kind {
    /** Of the platform that wrote it. */
    PLATFORM,
    /** Of POSIX. */
    POSIX,
    /** Of Windows. */
    WINDOWS
  }

  /** The path as text; what is not UTF-8 becomes U+FFFD. */
  @Override
  public String toString() {
    return new String(bytes.toArray(), StandardCharsets.UTF_8);
  }
}
