package org.plasmon.shuffle;

import java.nio.ByteBuffer;

/** What goes into a run: a section for each partition, which may be empty. */
public interface RunContent {
    /** How many bytes a partition's section takes. */
    int bytes(int partition);

    /** How many records are in it. */
    int records(int partition);

    /** Copies the section to this place. */
    void copyTo(int partition, ByteBuffer target, int at);
}
