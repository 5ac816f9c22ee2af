package org.plasmon.objects;

import java.util.AbstractList;
import java.util.RandomAccess;

/** A Python tuple: an immutable list. */
public final class Tuple extends AbstractList<Object> implements RandomAccess {
  private final Object[] items;
  private int hash;
  private boolean isHashed;

  Tuple(int size) {
    items = new Object[size];
  }

  void fill(int index, Object item) {
    items[index] = item;
  }

  /** Keeps the hash. Only for a tuple of nothing but immutables, each of which has kept its own. */
  void keepHash() {
    hash = super.hashCode();
    isHashed = true;
  }

  @Override
  public Object get(int index) {
    return items[index];
  }

  @Override
  public int size() {
    return items.length;
  }

  @Override
  public boolean equals(Object other) {
    return this == other || super.equals(other);
  }

  @Override
  public int hashCode() {
    return isHashed ? hash : super.hashCode();
  }
}
