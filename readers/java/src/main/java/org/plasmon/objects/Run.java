package org.plasmon.objects;

import java.util.List;

/** A stretch of values: the items of a list, the keys of a dict, one field of many rows. */
record Run(int elem, int start, int length) {
  /** The runs of a node. Those of rows are their fields'. */
  static List<Run> of(Tables tables, int node) {
    int elem = tables.u8(Column.NODE_ELEM, node);
    int start = tables.i32(Column.NODE_START, node);
    int start2 = tables.i32(Column.NODE_START2, node);
    int length = tables.i32(Column.NODE_LENGTH, node);
    return switch (tables.u8(Column.NODE_KIND, node)) {
      case Kinds.DICT ->
          List.of(
              new Run(elem, start, length),
              new Run(tables.u8(Column.NODE_ELEM2, node), start2, length));
      case Kinds.DICT_ROWS -> List.of(new Run(elem, start, start2));
      case Kinds.TUPLE_ROWS, Kinds.OBJECT_ROWS -> List.of();
      default -> List.of(new Run(elem, start, length));
    };
  }
}
