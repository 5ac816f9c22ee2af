package org.plasmon.objects;

/** The numbers of the format. */
final class Kinds {
  // Nodes.
  static final int LIST = 0;
  static final int TUPLE = 1;
  static final int DICT = 2;
  static final int SET = 3;
  static final int FROZENSET = 4;
  static final int DICT_ROWS = 5;
  static final int TUPLE_ROWS = 6;
  static final int OBJECT_ROWS = 7;
  static final int FIELD = 8;
  static final int OBJECT = 9;
  static final int ARRAY = 10;

  // Where the values of a run lie.
  static final int NONE = 0;
  static final int BITS = 1;
  static final int I32 = 2;
  static final int I64 = 3;
  static final int F64 = 4;
  static final int STRS = 5;
  static final int REFS = 6;
  static final int BINS = 7;
  static final int NODES = 8;
  static final int SLOTS = 9;
  static final int ROWS = 10;
  static final int TENSORS = 11;
  static final int EXTS = 12;

  static final int SLOT_NODE = 6;
  static final int SLOT_REF = 7;
  static final int SOURCE_PICKLED = 3;
  static final int MAKE_ATTRIBUTES = 0;

  private Kinds() {}

  /** Whether a node of this kind stands for one value. */
  static boolean isWhole(int kind) {
    return kind <= FROZENSET || kind == OBJECT || kind == ARRAY;
  }

  static boolean isRows(int kind) {
    return kind >= DICT_ROWS && kind <= OBJECT_ROWS;
  }
}
