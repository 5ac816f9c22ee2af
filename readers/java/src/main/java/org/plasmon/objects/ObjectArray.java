package org.plasmon.objects;

import java.util.ArrayList;
import java.util.List;

/** A NumPy array of objects: its shape, and its items in C order. */
public final class ObjectArray {
  private final long[] shape;
  private final List<Object> items = new ArrayList<>();

  ObjectArray(long[] shape) {
    this.shape = shape;
  }

  /** The extent of each dimension. */
  public long[] shape() {
    return shape.clone();
  }

  /** The items in C order. */
  public List<Object> items() {
    return items;
  }
}
