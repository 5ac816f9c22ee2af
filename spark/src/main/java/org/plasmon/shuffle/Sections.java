package org.plasmon.shuffle;

import java.nio.ByteBuffer;

/** The sections of some partitions in the output of one attempt at a map task. */
public interface Sections extends AutoCloseable {
    /**
     * The next section that is not empty, checked against its checksum; {@code null} at the end.
     * The bytes stay until the next call and no longer.
     */
    ByteBuffer next() throws StoreException;

    /** The partition of the last section. */
    int partition();

    /** How many records the last section has. */
    int records();

    /**
     * For how long the calls since the last one waited until the bytes of a run or a file were
     * there, in nanoseconds.
     */
    long takeWaitedNs();

    @Override
    void close();
}
