package org.plasmon.objects;

import static org.plasmon.objects.PloException.broken;

import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Makes containers and objects, without recursion.
 *
 * <p>Everything that holds something is made empty first; so whatever refers to what, it is there.
 * Then everything that hashes nothing is filled, then the frozensets (each after those that it
 * hashes), then sets and maps.
 */
final class Builder {
  private final Tables tables;
  private final Leaves leaves;
  private final Object[] built;

  Builder(Tables tables) {
    this.tables = tables;
    this.leaves = new Leaves(tables);
    this.built = new Object[tables.count(Size.NODES)];
  }

  /** The value of the root. */
  Object build() {
    for (int node = 0; node < built.length; node++) {
      built[node] = shell(node);
    }
    for (int node = 0; node < built.length; node++) {
      fill(node);
    }
    Immutables immutables = new Immutables(tables, this::hash);
    for (int node = 0; node < built.length; node++) {
      immutables.finish(node);
    }
    for (int node = 0; node < built.length; node++) {
      fillHashing(node, immutables);
    }
    return values(new Run(Kinds.SLOTS, 0, 1)).get(0);
  }

  private int kind(int node) {
    return tables.u8(Column.NODE_KIND, node);
  }

  /** What a node is before it is filled; for rows a list of such. */
  private Object shell(int node) {
    int length = tables.i32(Column.NODE_LENGTH, node);
    int start2 = tables.i32(Column.NODE_START2, node);
    return switch (kind(node)) {
      case Kinds.LIST -> new ArrayList<>(length);
      case Kinds.TUPLE -> new Tuple(length);
      case Kinds.DICT -> new LinkedHashMap<>();
      case Kinds.SET -> new LinkedHashSet<>();
      case Kinds.FROZENSET -> new FrozenSet();
      case Kinds.DICT_ROWS -> rows(length, LinkedHashMap::new);
      case Kinds.TUPLE_ROWS -> rows(length, () -> new Tuple(start2));
      case Kinds.OBJECT_ROWS -> {
        PloClass cls = leaves.classes.get(tables.i32(Column.NODE_START, node));
        yield rows(length, () -> new PloObject(cls));
      }
      case Kinds.OBJECT -> new PloObject(leaves.classes.get(start2));
      case Kinds.ARRAY -> {
        Tensor shape = leaves.tensors.get(start2);
        if (shape.size() != length) {
          throw broken("an array of objects with " + shape.size() + " elements", node);
        }
        yield new ObjectArray(shape.shape());
      }
      default -> null;
    };
  }

  private static List<Object> rows(int count, java.util.function.Supplier<Object> make) {
    List<Object> rows = new ArrayList<>(count);
    for (int row = 0; row < count; row++) {
      rows.add(make.get());
    }
    return rows;
  }

  @SuppressWarnings("unchecked")
  private List<Object> list(int node) {
    return (List<Object>) built[node];
  }

  /** Fills what hashes nothing. */
  private void fill(int node) {
    int kind = kind(node);
    if (Kinds.isRows(kind)) {
      if (kind != Kinds.DICT_ROWS) {
        fillRows(node, kind);
      }
      return;
    }
    if (kind == Kinds.LIST) {
      list(node).addAll(only(node));
    } else if (kind == Kinds.ARRAY) {
      ((ObjectArray) built[node]).items().addAll(only(node));
    } else if (kind == Kinds.TUPLE || kind == Kinds.OBJECT) {
      List<?> items = only(node);
      for (int at = 0; at < items.size(); at++) {
        set(built[node], at, items.get(at));
      }
    }
  }

  /** Sets one item of a tuple, or one part of an object. */
  private static void set(Object target, int at, Object item) {
    if (target instanceof Tuple tuple) {
      tuple.fill(at, item);
    } else {
      ((PloObject) target).part(at, item);
    }
  }

  private void fillRows(int node, int kind) {
    List<Object> rows = list(node);
    List<?> keys = kind == Kinds.DICT_ROWS ? only(node) : List.of();
    for (int field = 0; field < tables.i32(Column.NODE_START2, node); field++) {
      List<?> column = only(node + 1 + field);
      for (int row = 0; row < rows.size(); row++) {
        if (rows.get(row) instanceof Map<?, ?> map) {
          put(map, keys.get(field), column.get(row));
        } else {
          set(rows.get(row), field, column.get(row));
        }
      }
    }
  }

  /** Called for tuples and frozensets of immutables, after those that they hold. */
  private void hash(int node) {
    switch (kind(node)) {
      case Kinds.TUPLE -> ((Tuple) built[node]).keepHash();
      case Kinds.TUPLE_ROWS -> list(node).forEach(row -> ((Tuple) row).keepHash());
      case Kinds.FROZENSET -> {
        LinkedHashSet<Object> items = new LinkedHashSet<>();
        only(node).forEach(item -> add(items, item));
        ((FrozenSet) built[node]).fill(items);
      }
      default -> {}
    }
  }

  private void fillHashing(int node, Immutables immutables) {
    switch (kind(node)) {
      case Kinds.DICT_ROWS -> {
        immutables.mustHash(node, Run.of(tables, node).get(0));
        fillRows(node, Kinds.DICT_ROWS);
      }
      case Kinds.SET -> {
        immutables.mustHash(node, Run.of(tables, node).get(0));
        @SuppressWarnings("unchecked")
        Set<Object> set = (Set<Object>) built[node];
        only(node).forEach(item -> add(set, item));
      }
      case Kinds.DICT -> {
        List<Run> runs = Run.of(tables, node);
        immutables.mustHash(node, runs.get(0));
        List<?> keys = values(runs.get(0));
        List<?> items = values(runs.get(1));
        for (int at = 0; at < keys.size(); at++) {
          put((Map<?, ?>) built[node], keys.get(at), items.get(at));
        }
      }
      default -> {}
    }
  }

  private static void add(Set<Object> set, Object item) {
    if (!set.add(item)) {
      set.add(new EqualKey(item));
    }
  }

  @SuppressWarnings("unchecked")
  private static void put(Map<?, ?> map, Object key, Object value) {
    Map<Object, Object> target = (Map<Object, Object>) map;
    target.put(target.containsKey(key) ? new EqualKey(key) : key, value);
  }

  /** The values of the first run of a node. */
  private List<?> only(int node) {
    return values(Run.of(tables, node).get(0));
  }

  /** The values of a run, some of them made when they are asked for. */
  private List<?> values(Run run) {
    int start = run.start();
    int end = start + run.length();
    return switch (run.elem()) {
      case Kinds.NONE -> Collections.nCopies(run.length(), null);
      case Kinds.BITS -> view(run, at -> tables.bit(Column.BITS, at));
      case Kinds.I32 -> view(run, at -> (long) tables.i32(Column.I32, at));
      case Kinds.I64 -> view(run, at -> tables.i64(Column.I64, at));
      case Kinds.F64 -> view(run, at -> tables.f64(Column.F64, at));
      case Kinds.STRS -> leaves.strs.subList(start, end);
      case Kinds.REFS -> view(run, at -> leaves.strs.get(tables.i32(Column.REFS, at)));
      case Kinds.BINS -> leaves.bins.subList(start, end);
      case Kinds.NODES -> view(run, at -> built[at]);
      case Kinds.SLOTS -> view(run, this::slot);
      case Kinds.ROWS -> list(start);
      case Kinds.TENSORS -> leaves.tensors.subList(start, end);
      default -> leaves.exts.subList(start, end);
    };
  }

  private static List<Object> view(Run run, java.util.function.IntFunction<Object> value) {
    return new AbstractList<>() {
      @Override
      public Object get(int index) {
        return value.apply(run.start() + index);
      }

      @Override
      public int size() {
        return run.length();
      }
    };
  }

  private Object slot(int slot) {
    int at = tables.i32(Column.SLOT_OFFSET, slot);
    return switch (tables.u8(Column.SLOT_TYPE, slot)) {
      case 0 -> null;
      case 1 -> tables.bit(Column.SLOT_BOOL, at);
      case 2 -> tables.i64(Column.SLOT_INT, at);
      case 3 -> tables.f64(Column.SLOT_FLOAT, at);
      case 4 -> leaves.strs.get(tables.i32(Column.SLOT_STR, at));
      case 5 -> leaves.bins.get(tables.i32(Column.SLOT_BYTES, at));
      case Kinds.SLOT_NODE -> built[tables.i32(Column.SLOT_NODE, at)];
      case Kinds.SLOT_REF -> built[tables.i32(Column.SLOT_REF, at)];
      case 8 -> leaves.tensors.get(tables.i32(Column.SLOT_TENSOR, at));
      default -> leaves.exts.get(tables.i32(Column.SLOT_EXT, at));
    };
  }
}
