package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.OutputStream;

import org.plasmon.shuffle.RunContent;

/**
 * How large the sections of a map task's output would be in the files of Spark's own manager, which
 * compresses them. This is what {@code MapStatus} says, because it is what adaptive execution plans
 * with: its settings, and their defaults, are meant for compressed sizes. The store knows the real
 * ones. See docs/adr/0115.
 *
 * <p>A few sections of each run are compressed, up to a block's length, and thrown away. All
 * sections of the output are taken to shrink as these do together.
 */
final class ReportedSizes {
    /** How many sections of a run are tried. */
    static final int SECTIONS = 3;

    /** How much of a section is tried; the block of Spark's default codec is as long. */
    static final int HEAD_BYTES = 32 << 10;

    /** Puts compression around a stream. */
    interface Compression {
        OutputStream around(int partition, OutputStream stream);
    }

    private final Compression compression;
    private long tried;
    private long compressed;

    /** @param compression how sections would be compressed */
    ReportedSizes(Compression compression) {
        this.compression = compression;
    }

    /** Tries sections of a run, evenly spread over its partitions. */
    void sample(RunContent content, int partitions) throws IOException {
        byte[] head = null;
        int from = 0;
        for (int section = 1; section <= SECTIONS; section++) {
            int end = (int) ((long) partitions * section / SECTIONS);
            while (from < end && content.bytes(from) == 0) {
                from++;
            }
            if (from < end) {
                head = head == null ? new byte[HEAD_BYTES] : head;
                sample(from, head, content.copyHead(from, head));
            }
            from = end;
        }
    }

    private void sample(int partition, byte[] head, int bytes) throws IOException {
        Counter counter = new Counter();
        try (OutputStream stream = compression.around(partition, counter)) {
            stream.write(head, 0, bytes);
        }
        tried += bytes;
        compressed += counter.bytes;
    }

    /** The sizes to report for sections of these sizes; those that have bytes keep at least one. */
    long[] of(long[] stored) {
        if (tried == 0) {
            return stored;
        }
        double share = (double) compressed / tried;
        long[] sizes = new long[stored.length];
        for (int partition = 0; partition < stored.length; partition++) {
            long bytes = stored[partition];
            sizes[partition] = bytes == 0 ? 0 : Math.max(1, Math.round(bytes * share));
        }
        return sizes;
    }

    /** Counts what is written. */
    private static final class Counter extends OutputStream {
        private long bytes;

        @Override
        public void write(int value) {
            bytes++;
        }

        @Override
        public void write(byte[] from, int offset, int length) {
            bytes += length;
        }
    }
}
