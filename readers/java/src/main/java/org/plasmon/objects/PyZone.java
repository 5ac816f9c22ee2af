package org.plasmon.objects;

import java.time.DateTimeException;
import java.time.Duration;
import java.time.ZoneId;
import java.time.ZoneOffset;

/**
 * A time zone of Python. {@code offset} and {@code name} are those of a fixed one; a fixed one
 * without a name of its own has none. {@code key} is that of an IANA zone.
 */
public record PyZone(Kind kind, Duration offset, String name, String key) {
  /** How a zone is named. */
  public enum Kind {
    /** UTC. */
    UTC,
    /** By its offset from UTC. */
    FIXED,
    /** By its IANA key. */
    IANA
  }

  /**
   * Java's zone.
   *
   * @throws DateTimeException for an IANA key that Java doesn't know, and an offset that is not one
   *     of whole seconds within 18 hours
   */
  public ZoneId toZoneId() {
    if (kind == Kind.IANA) {
      return ZoneId.of(key);
    }
    if (offset.getNano() != 0 || Math.abs(offset.toDays()) > 1) {
      throw new DateTimeException("Java has no zone with the offset " + offset);
    }
    return ZoneOffset.ofTotalSeconds((int) offset.getSeconds());
  }
}
