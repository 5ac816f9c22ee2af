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

    /** Copies the first bytes of the section, as many as there are and fit; how many that were. */
    default int copyHead(int partition, byte[] target) {
        ByteBuffer whole = ByteBuffer.allocate(bytes(partition));
        copyTo(partition, whole, 0);
        int length = Math.min(target.length, whole.capacity());
        whole.get(0, target, 0, length);
        return length;
    }
}
