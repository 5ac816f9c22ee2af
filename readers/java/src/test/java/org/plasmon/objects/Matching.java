package org.plasmon.objects;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiPredicate;

/** Compares values with the JSON that describes the golden vectors (spec/objects/README.md). */
final class Matching {
  private static final long MICROS = 1_000_000;

  private final Map<Integer, Object> known = new HashMap<>();
  private final Map<String, BiPredicate<Object, JsonNode>> leaves = new HashMap<>();

  Matching() {
    leaves.put("int", (v, w) -> integer(v) != null && integer(v).toString().equals(w.asText()));
    leaves.put("float", (v, w) -> v instanceof Double d && isFloat(d, w.asText()));
    leaves.put("bytes", (v, w) -> v instanceof Bytes b && hex(b).equals(w.asText()));
    leaves.put("bytearray", (v, w) -> v instanceof byte[] b && hex(b).equals(w.asText()));
    leaves.put("surrogates", Matching::isSurrogates);
    leaves.put("complex", Matching::isComplex);
    leaves.put("date", (v, w) -> v instanceof LocalDate d && d.toEpochDay() == w.asLong());
    leaves.put("datetime", (v, w) -> isDateTime(v, w));
    leaves.put("time", (v, w) -> isTime(v, w));
    leaves.put("timedelta", Matching::isTimeDelta);
    leaves.put("tzinfo", (v, w) -> isZone((PyZone) v, w));
    leaves.put("decimal", Matching::isDecimal);
    leaves.put("uuid", (v, w) -> v instanceof UUID u && u.toString().equals(w.asText()));
    leaves.put("path", Matching::isPath);
    leaves.put("singleton", Matching::isSingleton);
    leaves.put("type", (v, w) -> v instanceof Global g && g.name().equals(w.asText()));
    leaves.put("global", (v, w) -> v instanceof Global g && g.name().equals(w.asText()));
    leaves.put("dtype", (v, w) -> v instanceof Dtype d && d.text().equals(w.asText()));
    leaves.put("scalar", Matching::isScalar);
    leaves.put("tensor", Matching::isTensor);
  }

  private static void expect(boolean fits, String path, Object value, JsonNode want) {
    if (!fits) {
      String wanted = want.toString();
      throw new AssertionError(
          path + ": " + value + " is not " + wanted.substring(0, Math.min(300, wanted.length())));
    }
  }

  void match(Object found, JsonNode want, String path) {
    Object value = found instanceof EqualKey key ? key.key() : found;
    if (want.isNull()) {
      expect(value == null, path, value, want);
    } else if (want.isBoolean()) {
      expect(value instanceof Boolean b && b == want.asBoolean(), path, value, want);
    } else if (want.isTextual()) {
      expect(value instanceof String && value.equals(want.asText()), path, value, want);
    } else if (want.has("ref")) {
      expect(known.get(want.get("ref").asInt()) == value, path, value, want);
    } else {
      if (want.has("id")) {
        known.put(want.get("id").asInt(), value);
      }
      expect(tagged(value, want, path), path, value, want);
    }
  }

  private boolean tagged(Object value, JsonNode want, String path) {
    for (Map.Entry<String, JsonNode> field : want.properties()) {
      JsonNode described = field.getValue();
      BiPredicate<Object, JsonNode> leaf = leaves.get(field.getKey());
      if (leaf != null) {
        return leaf.test(value, described);
      }
      switch (field.getKey()) {
        case "list":
          return value instanceof ArrayList<?> list && all(list, described, path);
        case "tuple":
          return value instanceof Tuple tuple && all(tuple, described, path);
        case "set":
          return value instanceof LinkedHashSet<?> set
              && all(new ArrayList<>(set), described, path);
        case "frozenset":
          return value instanceof FrozenSet set && all(new ArrayList<>(set), described, path);
        case "dict":
          return value instanceof LinkedHashMap<?, ?> map && pairs(map, described, path);
        case "array":
          return value instanceof ObjectArray array
              && Arrays.equals(array.shape(), longs(described.get("shape")))
              && all(array.items(), described.get("items"), path);
        case "object":
          return value instanceof PloObject object && object(object, described, path);
        case "pickle", "cloudpickle":
          return value instanceof Pickle pickle && isPickle(pickle, field.getKey(), want);
        case "arrow":
          return value instanceof ArrowData data
              && data.kind() == described.get("kind").asInt()
              && data.text().equals(described.get("text").asText())
              && hex(data.stream()).equals(described.get("stream").asText());
        default:
          expect(field.getKey().equals("id"), path, "a known tag", want);
      }
    }
    return false;
  }

  private boolean all(List<?> values, JsonNode want, String path) {
    expect(values.size() == want.size(), path, values.size() + " values", want);
    for (int at = 0; at < values.size(); at++) {
      match(values.get(at), want.get(at), path + "[" + at + "]");
    }
    return true;
  }

  private boolean pairs(Map<?, ?> map, JsonNode want, String path) {
    expect(map.size() == want.size(), path, map.size() + " pairs", want);
    int at = 0;
    for (Object key : map.keySet()) {
      match(key, want.get(at++).get(0), path + " keys");
    }
    at = 0;
    for (Object item : map.values()) {
      match(item, want.get(at).get(1), path + "[" + at++ + "]");
    }
    return true;
  }

  private boolean object(PloObject object, JsonNode want, String path) {
    PloClass cls = object.cls();
    List<String> fields = new ArrayList<>();
    want.path("fields").forEach(field -> fields.add(field.asText()));
    return cls.name().equals(want.get("class").asText())
        && cls.source().ordinal() == want.get("source").asInt()
        && cls.make().ordinal() == want.get("make").asInt()
        && cls.version() == want.path("version").asInt(0)
        && cls.fields().equals(fields)
        && all(new ArrayList<>(object.fields().values()), want.get("parts"), path);
  }

  private static BigInteger integer(Object value) {
    if (value instanceof Long small) {
      return BigInteger.valueOf(small);
    }
    return value instanceof BigInteger big ? big : null;
  }

  private static boolean isFloat(double value, String text) {
    double wanted =
        switch (text) {
          case "nan" -> Double.NaN;
          case "inf" -> Double.POSITIVE_INFINITY;
          case "-inf" -> Double.NEGATIVE_INFINITY;
          default -> Double.parseDouble(text);
        };
    return Double.compare(value, wanted) == 0;
  }

  private static boolean isComplex(Object value, JsonNode want) {
    return value instanceof Complex number
        && isFloat(number.re(), want.get(0).asText())
        && isFloat(number.im(), want.get(1).asText());
  }

  private static boolean isSurrogates(Object value, JsonNode want) {
    StringBuilder hex = new StringBuilder();
    String text = (String) value;
    text.codePoints()
        .forEach(
            code -> {
              byte[] bytes =
                  code >= 0xd800 && code < 0xe000
                      ? new byte[] {
                        (byte) (0xe0 | code >> 12),
                        (byte) (0x80 | code >> 6 & 0x3f),
                        (byte) (0x80 | code & 0x3f)
                      }
                      : Character.toString(code).getBytes(StandardCharsets.UTF_8);
              hex.append(hex(bytes));
            });
    return hex.toString().equals(want.asText());
  }

  private static boolean isZone(PyZone zone, JsonNode want) {
    if (want.isNull() || zone == null) {
      return want.isNull() && zone == null;
    }
    if (want.isTextual()) {
      return zone.kind() == PyZone.Kind.UTC;
    }
    if (want.has("key")) {
      return want.get("key").asText().equals(zone.key());
    }
    String name = want.path("name").asText("");
    return zone.offset().equals(micros(want.get("offset").asLong()))
        && name.equals(zone.name() == null ? "" : zone.name());
  }

  private static Duration micros(long micros) {
    return Duration.ofSeconds(Math.floorDiv(micros, MICROS))
        .plusNanos(1000 * Math.floorMod(micros, MICROS));
  }

  private static boolean isDateTime(Object value, JsonNode want) {
    PyDateTime moment =
        value instanceof LocalDateTime local
            ? new PyDateTime(local, 0, null)
            : (PyDateTime) value;
    Duration since =
        Duration.ofSeconds(moment.local().toEpochSecond(ZoneOffset.UTC), moment.local().getNano());
    return since.equals(micros(want.get(0).asLong()))
        && moment.fold() == want.get(1).asInt()
        && isZone(moment.zone(), want.get(2));
  }

  private static boolean isTime(Object value, JsonNode want) {
    PyTime time = value instanceof LocalTime local ? new PyTime(local, 0, null) : (PyTime) value;
    return time.local().toNanoOfDay() == 1000 * want.get(0).asLong()
        && time.fold() == want.get(1).asInt()
        && isZone(time.zone(), want.get(2));
  }

  private static boolean isTimeDelta(Object value, JsonNode want) {
    Duration wanted = Duration.ofDays(want.get(0).asLong()).plusSeconds(want.get(1).asLong());
    return wanted.plusNanos(1000 * want.get(2).asLong()).equals(value);
  }

  private static boolean isDecimal(Object value, JsonNode want) {
    if (value instanceof DecimalText text) {
      return text.text().equals(want.asText());
    }
    return value instanceof BigDecimal number && number.equals(new BigDecimal(want.asText()));
  }

  private static boolean isPath(Object value, JsonNode want) {
    return value instanceof PyPath path
        && path.kind().ordinal() == want.get(0).asInt()
        && path.toString().equals(want.get(1).asText());
  }

  private static boolean isSingleton(Object value, JsonNode want) {
    boolean isEllipsis = want.asText().equals("Ellipsis");
    return value == (isEllipsis ? Singleton.ELLIPSIS : Singleton.NOT_IMPLEMENTED);
  }

  private static boolean isScalar(Object value, JsonNode want) {
    return value instanceof Scalar scalar
        && scalar.dtype().text().equals(want.get("dtype").asText())
        && hex(scalar.bytes()).equals(want.get("data").asText());
  }

  private static boolean isTensor(Object value, JsonNode want) {
    return value instanceof Tensor tensor
        && tensor.kind().ordinal() == want.path("kind").asInt(0)
        && tensor.dtype().text().equals(want.get("dtype").asText())
        && Arrays.equals(tensor.shape(), longs(want.get("shape")))
        && (!want.has("strides")
            || Arrays.equals(tensor.strides(), longs(want.get("strides"))))
        && hex(tensor.toByteBuffer()).equals(want.get("data").asText());
  }

  private static boolean isPickle(Pickle pickle, String kind, JsonNode want) {
    List<String> buffers = new ArrayList<>();
    want.path("buffers").forEach(buffer -> buffers.add(buffer.asText()));
    return pickle.kind().name().equalsIgnoreCase(kind)
        && hex(pickle.data()).equals(want.get(kind).asText())
        && pickle.buffers().stream().map(Matching::hex).toList().equals(buffers);
  }

  private static long[] longs(JsonNode numbers) {
    long[] found = new long[numbers.size()];
    Arrays.setAll(found, at -> numbers.get(at).asLong());
    return found;
  }

  private static String hex(Bytes bytes) {
    return hex(bytes.toArray());
  }

  private static String hex(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return hex(bytes);
  }

  private static String hex(byte[] bytes) {
    return HexFormat.of().formatHex(bytes);
  }
}
