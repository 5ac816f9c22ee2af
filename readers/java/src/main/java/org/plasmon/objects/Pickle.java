package org.plasmon.objects;

import java.util.List;

/** A pickle that was not loaded, of one object, with its out-of-band buffers. */
public record Pickle(Kind kind, Bytes data, List<Bytes> buffers) {
  /** The library that loads it. */
  public enum Kind {
    /** Python's pickle. */
    PICKLE,
    /** The package cloudpickle. */
    CLOUDPICKLE
  }
}
