package org.plasmon.objects;

import java.util.AbstractSet;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;

/** A Python frozenset: an immutable set, in the order in which Python went through it. */
public final class FrozenSet extends AbstractSet<Object> {
  private Set<Object> items = Set.of();
  private int hash;

  FrozenSet() {}

  void fill(LinkedHashSet<Object> filled) {
    items = Collections.unmodifiableSet(filled);
    hash = filled.hashCode();
  }

  @Override
  public boolean contains(Object item) {
    return items.contains(item);
  }

  @Override
  public Iterator<Object> iterator() {
    return items.iterator();
  }

  @Override
  public int size() {
    return items.size();
  }

  @Override
  public boolean equals(Object other) {
    return this == other || super.equals(other);
  }

  @Override
  public int hashCode() {
    return hash;
  }
}
