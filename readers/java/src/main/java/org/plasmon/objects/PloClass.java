package org.plasmon.objects;

import java.util.List;

/**
 * The class of an object. {@code fields} are the names of its attributes; {@code pickle} is null
 * unless the class itself is pickled.
 */
public record PloClass(
    Source source, Make make, String name, int version, List<String> fields, Pickle pickle) {
  /** How a class is named. */
  public enum Source {
    /** By the specification of the format. */
    SPECIFIED,
    /** By an id that both sides registered. */
    REGISTERED,
    /** By where Python imports it from. */
    IMPORTABLE,
    /** By a pickle of it. */
    PICKLED
  }

  /** How an object is made of its class and its parts. */
  public enum Make {
    /** The parts are attributes. */
    ATTRIBUTES,
    /** The part is a state for a registered deserializer. */
    STATE,
    /** By calling the class. */
    CALL,
    /** By its {@code __new__}. */
    NEW,
    /** By its {@code __new__} with keyword arguments. */
    NEW_EX,
    /** It is what the name stands for. */
    VALUE
  }

  private static final List<String> CALL_PARTS =
      List.of("args", "state", "items", "pairs", "setter");
  private static final List<String> NEW_EX_PARTS =
      List.of("args", "kwargs", "state", "items", "pairs", "setter");

  /** The names of the parts of its objects. Those at the end may be absent. */
  List<String> partNames() {
    return switch (make) {
      case ATTRIBUTES -> fields;
      case STATE -> List.of("state");
      case NEW_EX -> NEW_EX_PARTS;
      default -> CALL_PARTS;
    };
  }
}
