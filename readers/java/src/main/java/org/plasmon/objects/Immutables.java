package org.plasmon.objects;

import static org.plasmon.objects.PloException.broken;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.IntConsumer;

/**
 * Goes through the tuples and frozensets, those that one holds before itself, and finds out which
 * of them can be hashed: those of nothing but what can be. An object can, by its identity. An
 * immutable that holds itself, other than within something mutable, is an error.
 */
final class Immutables {
  private static final byte OPEN = 1;
  private static final byte HASHABLE = 2;
  private static final byte UNHASHABLE = 3;

  private final Tables tables;
  private final IntConsumer hash;
  private final byte[] states;

  /** {@code hash} is called for each one that can be hashed, after those that it holds. */
  Immutables(Tables tables, IntConsumer hash) {
    this.tables = tables;
    this.hash = hash;
    this.states = new byte[tables.count(Size.NODES)];
  }

  private record Frame(int node, int[] children, int[] next) {}

  private boolean isImmutable(int node) {
    int kind = tables.u8(Column.NODE_KIND, node);
    return kind == Kinds.TUPLE || kind == Kinds.FROZENSET || kind == Kinds.TUPLE_ROWS;
  }

  /** Deals with an immutable node and those in it. */
  void finish(int root) {
    if (!isImmutable(root) || states[root] != 0) {
      return;
    }
    Deque<Frame> stack = new ArrayDeque<>();
    stack.push(open(root));
    while (!stack.isEmpty()) {
      Frame frame = stack.peek();
      if (frame.next[0] == frame.children.length) {
        stack.pop();
        close(frame);
        continue;
      }
      int child = frame.children[frame.next[0]++];
      if (isImmutable(child) && states[child] == OPEN) {
        throw broken("an immutable that contains itself", child);
      }
      if (isImmutable(child) && states[child] == 0) {
        stack.push(open(child));
      }
    }
  }

  private Frame open(int node) {
    states[node] = OPEN;
    return new Frame(node, children(node), new int[1]);
  }

  private void close(Frame frame) {
    boolean isHashable = true;
    for (int child : frame.children) {
      isHashable &= isHashable(child);
    }
    states[frame.node] = isHashable ? HASHABLE : UNHASHABLE;
    if (isHashable) {
      hash.accept(frame.node);
    } else if (tables.u8(Column.NODE_KIND, frame.node) == Kinds.FROZENSET) {
      throw broken("a frozenset of what can't be hashed", frame.node);
    }
  }

  private boolean isHashable(int node) {
    int kind = tables.u8(Column.NODE_KIND, node);
    return states[node] == HASHABLE || kind == Kinds.OBJECT || kind == Kinds.OBJECT_ROWS;
  }

  /** Throws unless everything in a run can be hashed. Call it when all nodes are finished. */
  void mustHash(int node, Run run) {
    List<Integer> nodes = new ArrayList<>();
    collect(run, nodes);
    if (!nodes.stream().allMatch(this::isHashable)) {
      throw broken("a dict or a set with a key that can't be hashed", node);
    }
  }

  /** The nodes among the values of an immutable one. */
  private int[] children(int node) {
    List<Integer> nodes = new ArrayList<>();
    if (tables.u8(Column.NODE_KIND, node) == Kinds.TUPLE_ROWS) {
      for (int field = 1; field <= tables.i32(Column.NODE_START2, node); field++) {
        collect(Run.of(tables, node + field).get(0), nodes);
      }
    } else {
      collect(Run.of(tables, node).get(0), nodes);
    }
    return nodes.stream().mapToInt(Integer::intValue).toArray();
  }

  private void collect(Run run, List<Integer> nodes) {
    int end = run.start() + run.length();
    if (run.elem() == Kinds.ROWS) {
      nodes.add(run.start());
    }
    for (int at = run.start(); at < end && run.elem() == Kinds.NODES; at++) {
      nodes.add(at);
    }
    for (int slot = run.start(); slot < end && run.elem() == Kinds.SLOTS; slot++) {
      int type = tables.u8(Column.SLOT_TYPE, slot);
      int offset = tables.i32(Column.SLOT_OFFSET, slot);
      if (type == Kinds.SLOT_NODE) {
        nodes.add(tables.i32(Column.SLOT_NODE, offset));
      } else if (type == Kinds.SLOT_REF) {
        nodes.add(tables.i32(Column.SLOT_REF, offset));
      }
    }
  }
}
