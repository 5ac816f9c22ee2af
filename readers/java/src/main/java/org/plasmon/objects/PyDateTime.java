package org.plasmon.objects;

import java.time.DateTimeException;
import java.time.LocalDateTime;
import java.time.ZonedDateTime;

/**
 * A date with a time that has a zone or a fold. (One without either is a {@link LocalDateTime}.)
 * {@code fold} is 1 for the second time that a clock which was set back shows this; {@code zone}
 * may be null.
 */
public record PyDateTime(LocalDateTime local, int fold, PyZone zone) {
  /**
   * The moment in Java's zone.
   *
   * @throws DateTimeException without a zone, or where Java lacks it
   */
  public ZonedDateTime toZonedDateTime() {
    if (zone == null) {
      throw new DateTimeException(local + " has no zone");
    }
    ZonedDateTime moment = local.atZone(zone.toZoneId());
    return fold == 0 ? moment : moment.withLaterOffsetAtOverlap();
  }
}
