package org.plasmon.objects;

/**
 * A key of a dict, or an item of a set, that Java holds equal to another one of the same dict, and
 * Python doesn't: a second NaN. It is equal to itself alone.
 */
public final class EqualKey {
  private final Object key;

  EqualKey(Object key) {
    this.key = key;
  }

  /** The key itself. */
  public Object key() {
    return key;
  }
}
