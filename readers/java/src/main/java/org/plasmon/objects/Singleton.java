package org.plasmon.objects;

/** The values of Python that are named and nothing else. */
public enum Singleton {
  ELLIPSIS,
  NOT_IMPLEMENTED
}
