package org.plasmon.objects;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Set;
import java.util.UUID;

/** The values of extensions: section 6. */
final class Extensions {
  private static final Set<Integer> IN_HEAP = Set.of(3, 4, 6, 22);
  private static final Set<Integer> PICKLES = Set.of(20, 21);
  private static final long MICROS = 1_000_000;
  private static final long DAY_MICROS = 86_400 * MICROS;
  private static final long FIRST_DAY = LocalDate.of(1, 1, 1).toEpochDay();
  private static final long LAST_DAY = LocalDate.of(9999, 12, 31).toEpochDay();

  private Extensions() {}

  /** Whether an extension of a kind may have this number of heap entries. */
  static boolean mayHave(int kind, int heapEntries) {
    return PICKLES.contains(kind) || heapEntries == (IN_HEAP.contains(kind) ? 1 : 0);
  }

  /** The value of an extension: of its data without lengths, and its heap entries. */
  static Object read(int kind, ByteBuffer data, List<Bytes> heap, List<Dtype> dtypes) {
    return switch (kind) {
      case 0 -> integer(data);
      case 1 -> new Complex(exactly(16, data).getDouble(0), data.getDouble(8));
      case 2 -> Utf8.decodeSurrogates(data);
      case 3 -> Utf8.decode(heap.get(0).asByteBuffer());
      case 4 -> heap.get(0);
      case 5 -> new Bytes(data).toArray();
      case 6 -> heap.get(0).toArray();
      case 7 -> date(exactly(4, data).getInt(0));
      case 8 -> dateTime(data);
      case 9 -> time(data);
      case 10 -> timeDelta(exactly(12, data));
      case 11 -> tzinfo(data);
      case 12 -> decimal(Utf8.decode(data));
      case 13 -> uuid(exactly(16, data));
      case 14 -> new PyPath(PyPath.Kind.values()[data.get(0)], new Bytes(rest(data, 1)));
      case 15 -> Singleton.values()[exactly(1, data).get(0)];
      case 16 -> scalar(data, dtypes);
      case 17 -> dtypes.get(exactly(4, data).getInt(0));
      case 18, 19 -> new Global(Utf8.decode(data));
      case 20 -> new Pickle(Pickle.Kind.PICKLE, new Bytes(data), List.copyOf(heap));
      case 21 -> new Pickle(Pickle.Kind.CLOUDPICKLE, new Bytes(data), List.copyOf(heap));
      case 22 -> new ArrowData(data.get(0) & 0xff, Utf8.decode(rest(data, 1)), heap.get(0));
      default -> throw PloException.broken("an extension of an unknown kind", kind);
    };
  }

  private static ByteBuffer rest(ByteBuffer data, int from) {
    return data.slice(from, data.capacity() - from).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static ByteBuffer exactly(int length, ByteBuffer data) {
    if (data.capacity() != length) {
      throw PloException.broken("an extension that does not have its " + length + " bytes", 0);
    }
    return data;
  }

  private static Object integer(ByteBuffer data) {
    byte[] bytes = new byte[data.capacity()];
    for (int at = 0; at < bytes.length; at++) {
      bytes[at] = data.get(bytes.length - 1 - at);
    }
    return bytes.length == 0 ? BigInteger.ZERO : new BigInteger(bytes);
  }

  private static LocalDate date(long day) {
    if (day < FIRST_DAY || day > LAST_DAY) {
      throw PloException.broken("a date outside of the years 1 to 9999", day);
    }
    return LocalDate.ofEpochDay(day);
  }

  private static Object dateTime(ByteBuffer data) {
    long micros = data.getLong(0);
    date(Math.floorDiv(micros, DAY_MICROS));
    int nanos = (int) Math.floorMod(micros, MICROS) * 1000;
    LocalDateTime local =
        LocalDateTime.ofEpochSecond(Math.floorDiv(micros, MICROS), nanos, ZoneOffset.UTC);
    PyZone zone = zone(rest(data, 9));
    int fold = fold(data);
    return fold == 0 && zone == null ? local : new PyDateTime(local, fold, zone);
  }

  private static Object time(ByteBuffer data) {
    long micros = data.getLong(0);
    if (micros < 0 || micros >= DAY_MICROS) {
      throw PloException.broken("a time outside of a day", micros);
    }
    LocalTime local = LocalTime.ofNanoOfDay(micros * 1000);
    PyZone zone = zone(rest(data, 9));
    int fold = fold(data);
    return fold == 0 && zone == null ? local : new PyTime(local, fold, zone);
  }

  private static int fold(ByteBuffer data) {
    int fold = data.get(8);
    if (fold != 0 && fold != 1) {
      throw PloException.broken("a time out of range", fold);
    }
    return fold;
  }

  private static Duration timeDelta(ByteBuffer data) {
    Duration duration = Duration.ofDays(data.getInt(0)).plusSeconds(data.getInt(4));
    return duration.plusNanos(1000L * data.getInt(8));
  }

  private static PyZone tzinfo(ByteBuffer data) {
    PyZone zone = zone(data);
    if (zone == null) {
      throw PloException.broken("an invalid time zone", 0);
    }
    return zone;
  }

  private static PyZone zone(ByteBuffer data) {
    int kind = data.get(0);
    ByteBuffer rest = rest(data, 1);
    if (kind < 2) {
      exactly(0, rest);
    }
    return switch (kind) {
      case 0 -> null;
      case 1 -> new PyZone(PyZone.Kind.UTC, Duration.ZERO, null, null);
      case 2 -> {
        long micros = rest.getLong(0);
        if (micros <= -DAY_MICROS || micros >= DAY_MICROS) {
          throw PloException.broken("a time zone a day or more from UTC", micros);
        }
        Duration offset =
            Duration.ofSeconds(
                Math.floorDiv(micros, MICROS), Math.floorMod(micros, MICROS) * 1000);
        String name = Utf8.decode(rest(rest, 8));
        yield new PyZone(PyZone.Kind.FIXED, offset, name.isEmpty() ? null : name, null);
      }
      case 3 -> new PyZone(PyZone.Kind.IANA, null, null, Utf8.decode(rest));
      default -> throw PloException.broken("a time zone of an unknown kind", kind);
    };
  }

  private static Object decimal(String text) {
    try {
      BigDecimal number = new BigDecimal(text);
      boolean isMinusZero = number.signum() == 0 && text.startsWith("-");
      return isMinusZero ? new DecimalText(text) : number;
    } catch (NumberFormatException error) {
      return new DecimalText(text);
    }
  }

  private static UUID uuid(ByteBuffer data) {
    ByteBuffer big = data.duplicate().order(ByteOrder.BIG_ENDIAN);
    return new UUID(big.getLong(0), big.getLong(8));
  }

  private static Scalar scalar(ByteBuffer data, List<Dtype> dtypes) {
    Dtype dtype = dtypes.get(data.getInt(0));
    return new Scalar(dtype, new Bytes(exactly(dtype.itemsize(), rest(data, 4))));
  }
}
