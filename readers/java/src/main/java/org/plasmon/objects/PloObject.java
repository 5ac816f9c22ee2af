package org.plasmon.objects;

import java.util.LinkedHashMap;
import java.util.Map;

/** An object of a class, equal to itself alone. */
public final class PloObject {
  private final PloClass cls;
  private final Map<String, Object> fields = new LinkedHashMap<>();

  PloObject(PloClass cls) {
    this.cls = cls;
  }

  /** Its class. */
  public PloClass cls() {
    return cls;
  }

  /**
   * Its parts by name. The names are the attributes', or {@code state}, or for an object that is
   * made by a call {@code args}, {@code kwargs}, {@code state}, {@code items}, {@code pairs} and
   * {@code setter}.
   */
  public Map<String, Object> fields() {
    return fields;
  }

  void part(int number, Object part) {
    fields.put(cls.partNames().get(number), part);
  }

  @Override
  public String toString() {
    return "PloObject[" + cls.name() + "]";
  }
}
