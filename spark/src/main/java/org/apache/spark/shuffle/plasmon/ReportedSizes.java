package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.OutputStream;
import java.util.HashMap;
import java.util.Map;

import org.plasmon.shuffle.RunContent;

/**
 * How large the sections of a map task's output would be in the files of Spark's own manager, which
 * compresses them. This is what {@code MapStatus} says, because it is what adaptive execution plans
 * with: its settings, and their defaults, are meant for compressed sizes. The store knows the real
 * ones. See docs/adr/0115.
 *
 * <p>A few sections of each run are compressed, up to a block's length, and thrown away: some that
 * are spread over its partitions, and the largest one, which decides whether a partition is skewed.
 * A section that was compressed as a whole has the size that it has then. The others are taken to
 * shrink as those that were tried do together, apart from what every stream has of its own.
 */
final class ReportedSizes {
    /** How many sections of a run are tried, beside the largest one. */
    static final int SECTIONS = 2;

    /** How much of a section is tried; the block of Spark's default codec is as long. */
    static final int HEAD_BYTES = 32 << 10;

    /** Puts compression around a stream. */
    interface Compression {
        OutputStream around(int partition, OutputStream stream);
    }

    private final Compression compression;
    private final long frameBytes;
    private final Map<Integer, Tried> triedOf = new HashMap<>();
    private byte[] head;
    private long tried;
    private long compressed;
    private long streams;

    /** What was tried of a partition's sections. */
    private record Tried(long bytes, long compressed) {
        private Tried and(Tried more) {
            return new Tried(bytes + more.bytes, compressed + more.compressed);
        }
    }

    /**
     * @param compression how sections would be compressed
     * @param frameBytes what a compressed stream has beside its content
     */
    ReportedSizes(Compression compression, long frameBytes) {
        this.compression = compression;
        this.frameBytes = frameBytes;
    }

    /** How many bytes a compressed stream has beside its content, as one with a byte shows. */
    static long frameBytes(Compression compression) throws IOException {
        Counter counter = new Counter();
        try (OutputStream stream = compression.around(0, counter)) {
            stream.write(0);
        }
        return Math.max(0, counter.bytes - 1);
    }

    /** Tries sections of a run. */
    void sample(RunContent content, int partitions) throws IOException {
        int largest = 0;
        for (int partition = 1; partition < partitions; partition++) {
            if (content.bytes(partition) > content.bytes(largest)) {
                largest = partition;
            }
        }
        if (content.bytes(largest) == 0) {
            return;
        }
        head = head == null ? new byte[HEAD_BYTES] : head;
        tryOut(content, largest);
        int from = 0;
        for (int section = 1; section <= SECTIONS; section++) {
            int end = (int) ((long) partitions * section / SECTIONS);
            while (from < end && content.bytes(from) == 0) {
                from++;
            }
            if (from < end && from != largest) {
                tryOut(content, from);
            }
            from = end;
        }
    }

    private void tryOut(RunContent content, int partition) throws IOException {
        int bytes = content.copyHead(partition, head);
        Counter counter = new Counter();
        try (OutputStream stream = compression.around(partition, counter)) {
            stream.write(head, 0, bytes);
        }
        tried += bytes;
        compressed += counter.bytes;
        streams++;
        triedOf.merge(partition, new Tried(bytes, counter.bytes), Tried::and);
    }

    /** The sizes to report for sections of these sizes; those that have bytes keep at least one. */
    long[] of(long[] stored) {
        if (tried == 0) {
            return stored;
        }
        double share = Math.max(0, compressed - streams * frameBytes) / (double) tried;
        long[] sizes = new long[stored.length];
        for (int partition = 0; partition < stored.length; partition++) {
            long bytes = stored[partition];
            Tried known = triedOf.get(partition);
            long size = known != null && known.bytes == bytes
                    ? known.compressed
                    : frameBytes + Math.round(bytes * share);
            sizes[partition] = bytes == 0 ? 0 : Math.max(1, size);
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
