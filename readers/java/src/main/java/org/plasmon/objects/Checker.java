package org.plasmon.objects;

import static org.plasmon.objects.PloException.broken;

import java.util.EnumMap;
import java.util.Map;

/**
 * The rules of section 4: every entry of a table is used, in the order of the nodes.
 *
 * <p>The check goes through the nodes as their writer did, with a counter for each table. What is
 * mentioned for the first time must be the next entry. So nothing is used twice, nothing leads
 * outside, and what is built afterwards takes a constant times the object's size.
 */
final class Checker {
  private static final int FIELDS_MAX = 1024;
  private static final int ROW_FIELDS_MAX = 64;
  private static final int NAME_BYTES_MAX = 4096;
  private static final int HEAP_ALIGN = 64;
  private static final int TENSOR_SHAPE = 2;
  private static final int[][] PARTS = {{0, 0}, {1, 1}, {1, 5}, {1, 5}, {2, 6}, {0, 0}};

  /** The table that each type of slot is an index of. */
  private static final Map<Integer, Size> SLOT_TABLES =
      Map.of(4, Size.STRS, 5, Size.BINS, 8, Size.TENSORS, 9, Size.EXTS);

  private static final Map<Integer, Column> SLOT_COLUMNS =
      Map.of(
          4, Column.SLOT_STR, 5, Column.SLOT_BYTES, 8, Column.SLOT_TENSOR, 9, Column.SLOT_EXT);

  /** The table that a run takes a stretch of, where it is no more than that. */
  private static final Size[] RUN_TABLES = {
    Size.BITS, Size.BITS, Size.I32, Size.I64, Size.F64, Size.STRS, Size.REFS, Size.BINS
  };

  private static final Size[] ALL_USED = {
    Size.SLOTS, Size.NULL, Size.BOOL, Size.INT, Size.FLOAT, Size.STR, Size.BYTES, Size.NODE,
    Size.REF, Size.TENSOR, Size.EXT, Size.NODES, Size.I32, Size.I64, Size.F64, Size.BITS,
    Size.STRS, Size.REFS, Size.BINS, Size.CLASSES, Size.TENSORS, Size.EXTS
  };

  private static final Map<Column, Size> OFFSETS =
      new EnumMap<>(
          Map.of(
              Column.STR_OFFSETS, Size.STRS_BYTES,
              Column.BIN_OFFSETS, Size.BINS_BYTES,
              Column.NAME_OFFSETS, Size.CLASS_NAME_BYTES,
              Column.FIELD_OFFSETS, Size.CLASS_FIELDS,
              Column.FIELD_NAME_OFFSETS, Size.CLASS_FIELD_BYTES,
              Column.DTYPE_OFFSETS, Size.DTYPE_BYTES,
              Column.SHAPE_OFFSETS, Size.TENSOR_SHAPE,
              Column.STRIDE_OFFSETS, Size.TENSOR_STRIDES,
              Column.DATA_OFFSETS, Size.EXT_BYTES,
              Column.HEAPS_OFFSETS, Size.EXT_HEAPS));

  private final Tables tables;
  private final int[] used = new int[Size.ALL.length];

  private Checker(Tables tables) {
    this.tables = tables;
  }

  /** Throws unless every rule is kept. */
  static void check(Tables tables) {
    new Checker(tables).run();
  }

  private void run() {
    OFFSETS.forEach((offsets, end) -> offsets(offsets, 4, tables.count(end)));
    offsets(Column.HEAP_OFFSETS, 8, tables.count(Size.HEAP_BYTES));
    slots(0, 1);
    for (int node = 0; node < tables.count(Size.NODES); node++) {
      if (node >= used[Size.NODES.ordinal()]) {
        throw broken("a node without an owner", node);
      }
      node(node);
    }
    for (Size size : ALL_USED) {
      if (used[size.ordinal()] != tables.count(size)) {
        throw broken(size + " that are not used", used[size.ordinal()]);
      }
    }
  }

  private void offsets(Column column, int width, long end) {
    int count = tables.offsetCount(column, width);
    long before = 0;
    for (int at = 0; at < count; at++) {
      long offset = width == 4 ? tables.i32(column, at) : tables.i64(column, at);
      if (offset < before || (at == 0 && offset != 0)) {
        throw broken(column + " that do not rise from 0", at);
      }
      if (column == Column.HEAP_OFFSETS && offset % HEAP_ALIGN != 0) {
        throw broken("a heap entry out of line", at);
      }
      before = offset;
    }
    if (before != end) {
      throw broken(column + " that don't end where their values do", before);
    }
  }

  /** Uses the next entries of a table. */
  private void take(Size table, int start, int count) {
    int next = used[table.ordinal()];
    if (start != next || count > tables.count(table) - next) {
      throw broken("a run that is not the next one of " + table, start);
    }
    used[table.ordinal()] += count;
  }

  /** Uses an entry that was used before or is the next; whether it is the next. */
  private boolean mention(Size table, int index) {
    int next = used[table.ordinal()];
    if (index < 0 || index > next || index >= tables.count(table)) {
      throw broken("an index of " + table + " that is neither in use nor the next", index);
    }
    if (index == next) {
      used[table.ordinal()]++;
    }
    return index == next;
  }

  private void mentionTensor(int index, boolean isShape) {
    mention(Size.TENSORS, index);
    if ((tables.u8(Column.TENSOR_KIND, index) == TENSOR_SHAPE) != isShape) {
      throw broken("a tensor of the wrong kind", index);
    }
  }

  private void mentionOf(Size table, int index) {
    if (table == Size.TENSORS) {
      mentionTensor(index, false);
    } else {
      mention(table, index);
    }
  }

  private void slots(int start, int count) {
    take(Size.SLOTS, start, count);
    for (int slot = start; slot < start + count; slot++) {
      slot(slot);
    }
  }

  private void slot(int slot) {
    int type = tables.u8(Column.SLOT_TYPE, slot);
    if (type > 9) {
      throw broken("a slot of the unknown type " + type, slot);
    }
    int at = tables.i32(Column.SLOT_OFFSET, slot);
    take(Size.ALL[Size.NULL.ordinal() + type], at, 1);
    if (type == Kinds.SLOT_NODE) {
      own(tables.i32(Column.SLOT_NODE, at), 1);
    } else if (type == Kinds.SLOT_REF) {
      int to = tables.i32(Column.SLOT_REF, at);
      if (to < 0 || to >= used[Size.NODES.ordinal()] || !Kinds.isWhole(kind(to))) {
        throw broken("a reference to a node that does not exist yet, or to rows", slot);
      }
    } else if (SLOT_TABLES.containsKey(type)) {
      mentionOf(SLOT_TABLES.get(type), tables.i32(SLOT_COLUMNS.get(type), at));
    }
  }

  private int kind(int node) {
    return tables.u8(Column.NODE_KIND, node);
  }

  private void own(int start, int count) {
    take(Size.NODES, start, count);
    for (int node = start; node < start + count; node++) {
      if (!Kinds.isWhole(kind(node))) {
        throw broken("a node without a value", node);
      }
    }
  }

  private void ownRows(int node, int length) {
    boolean isThere = node >= 0 && node < tables.count(Size.NODES);
    int count = isThere ? tables.i32(Column.NODE_START2, node) : 0;
    if (count < 1 || count > ROW_FIELDS_MAX || !Kinds.isRows(kind(node))) {
      throw broken("rows without a row node", node);
    }
    take(Size.NODES, node, 1 + count);
    boolean isSolid = isSolid(node);
    for (int field = node + 1; field <= node + count; field++) {
      if (kind(field) != Kinds.FIELD || tables.i32(Column.NODE_LENGTH, field) != length) {
        throw broken("rows without fields of their length", node);
      }
      boolean isRows = tables.u8(Column.NODE_ELEM, field) == Kinds.ROWS;
      isSolid |= isRows && isSolid(tables.i32(Column.NODE_START, field));
    }
    if (tables.i32(Column.NODE_LENGTH, node) != length || !isSolid) {
      throw broken("rows of another length, or of nothing but bits and rows", node);
    }
  }

  /** Whether a row takes bytes of its own: one of its fields is neither bits nor rows. */
  private boolean isSolid(int rows) {
    int count = Math.min(tables.i32(Column.NODE_START2, rows), ROW_FIELDS_MAX);
    for (int field = rows + 1; field <= rows + count; field++) {
      int elem = tables.u8(Column.NODE_ELEM, field);
      if (elem != Kinds.NONE && elem != Kinds.BITS && elem != Kinds.ROWS) {
        return true;
      }
    }
    return false;
  }

  private void run(Run run) {
    int start = run.start();
    int length = run.length();
    if (length <= 0) {
      if (run.elem() != 0 || start != 0 || length != 0) {
        throw broken("an empty run with a place", start);
      }
    } else if (run.elem() < Kinds.NODES) {
      take(RUN_TABLES[run.elem()], start, length);
      for (int at = start; run.elem() == Kinds.REFS && at < start + length; at++) {
        mention(Size.STRS, tables.i32(Column.REFS, at));
      }
    } else {
      heldRun(run);
    }
  }

  /** A run of what has parts or places of its own. */
  private void heldRun(Run run) {
    int start = run.start();
    switch (run.elem()) {
      case Kinds.NODES -> own(start, run.length());
      case Kinds.SLOTS -> slots(start, run.length());
      case Kinds.ROWS -> ownRows(start, run.length());
      case Kinds.TENSORS, Kinds.EXTS -> {
        Size table = run.elem() == Kinds.TENSORS ? Size.TENSORS : Size.EXTS;
        int next = used[table.ordinal()];
        if (start != next || run.length() > tables.count(table) - next) {
          throw broken("a run that is not the next one of " + table, start);
        }
        for (int index = start; index < start + run.length(); index++) {
          mentionOf(table, index);
        }
      }
      default -> throw broken("a run of the unknown kind " + run.elem(), start);
    }
  }

  private void node(int node) {
    int start2 = tables.i32(Column.NODE_START2, node);
    if (hasUnused(node)) {
      throw broken("a node with fields that it does not use", node);
    }
    switch (kind(node)) {
      case Kinds.OBJECT -> {
        object(start2, tables.i32(Column.NODE_LENGTH, node));
        if (tables.u8(Column.NODE_ELEM, node) == Kinds.ROWS) {
          throw broken("an object whose parts are rows", node);
        }
      }
      case Kinds.OBJECT_ROWS -> object(tables.i32(Column.NODE_START, node), start2);
      case Kinds.ARRAY -> mentionTensor(start2, true);
      default -> {}
    }
    for (Run run : Run.of(tables, node)) {
      run(run);
    }
  }

  /** Whether something is in a field of a node that its kind doesn't use. */
  private boolean hasUnused(int node) {
    int start = tables.i32(Column.NODE_START, node);
    int start2 = tables.i32(Column.NODE_START2, node);
    int elem = tables.u8(Column.NODE_ELEM, node);
    int elem2 = tables.u8(Column.NODE_ELEM2, node);
    return switch (kind(node)) {
      case Kinds.DICT -> false;
      case Kinds.LIST, Kinds.TUPLE, Kinds.SET, Kinds.FROZENSET, Kinds.FIELD ->
          (elem2 | start2) != 0;
      case Kinds.TUPLE_ROWS -> (elem | elem2 | start) != 0;
      case Kinds.OBJECT_ROWS -> (elem | elem2) != 0;
      default -> elem2 != 0;
    };
  }

  private void object(int index, int parts) {
    boolean first = mention(Size.CLASSES, index);
    int source = tables.u8(Column.CLASS_SOURCE, index);
    int make = tables.u8(Column.CLASS_MAKE, index);
    int fields =
        tables.i32(Column.FIELD_OFFSETS, index + 1) - tables.i32(Column.FIELD_OFFSETS, index);
    if (tables.text(Column.NAME_OFFSETS, Column.NAME_BYTES, index).capacity() > NAME_BYTES_MAX) {
      throw broken("the name of a class past its limit", index);
    }
    boolean isKnown = source <= Kinds.SOURCE_PICKLED && make < PARTS.length;
    if (!isKnown || fields > FIELDS_MAX || (fields != 0 && make != Kinds.MAKE_ATTRIBUTES)) {
      throw broken("a class of an unknown kind, or with fields it can't have", index);
    }
    if (source != Kinds.SOURCE_PICKLED && tables.i32(Column.CLASS_EXT, index) != -1) {
      throw broken("a class with a name and a pickle", index);
    }
    if (first && source == Kinds.SOURCE_PICKLED) {
      mention(Size.EXTS, tables.i32(Column.CLASS_EXT, index));
    }
    int least = make == Kinds.MAKE_ATTRIBUTES ? fields : PARTS[make][0];
    int most = make == Kinds.MAKE_ATTRIBUTES ? fields : PARTS[make][1];
    if (parts < least || parts > most) {
      throw broken("an object with " + parts + " parts", index);
    }
  }
}
