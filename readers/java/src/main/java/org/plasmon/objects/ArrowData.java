package org.plasmon.objects;

import java.io.ByteArrayInputStream;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.ipc.ArrowStreamReader;

/**
 * Arrow data: what it was in Python ({@code kind} and {@code text}, see docs/formats/values.md),
 * and the IPC stream.
 */
public record ArrowData(int kind, String text, Bytes stream) {
  /** A reader of the stream, which the caller closes. */
  public ArrowStreamReader open(BufferAllocator allocator) {
    return new ArrowStreamReader(new ByteArrayInputStream(stream.toArray()), allocator);
  }
}
