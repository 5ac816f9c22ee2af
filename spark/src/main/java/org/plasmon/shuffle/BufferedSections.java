package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** Finished sections, one after the other in the order of their partitions. */
public final class BufferedSections implements RunContent {
    private final RecordBuffer buffer;
    private final int[] starts;
    private final int[] bytes;
    private final int[] records;

    /**
     * @param buffer where the sections are written
     * @param partitions how many partitions there are
     */
    public BufferedSections(RecordBuffer buffer, int partitions) {
        this.buffer = buffer;
        this.starts = new int[partitions];
        this.bytes = new int[partitions];
        this.records = new int[partitions];
    }

    /** Notes that what was written from {@code start} on is the section of a partition. */
    public void add(int partition, int start, int recordCount) {
        starts[partition] = start;
        bytes[partition] = buffer.size() - start;
        records[partition] = recordCount;
    }

    /** Whether the buffer is empty. */
    public boolean isEmpty() {
        return buffer.size() == 0;
    }

    /** Forgets all sections. */
    public void clear() {
        buffer.clear();
        Arrays.fill(bytes, 0);
        Arrays.fill(records, 0);
    }

    @Override
    public int bytes(int partition) {
        return bytes[partition];
    }

    @Override
    public int records(int partition) {
        return records[partition];
    }

    @Override
    public void copyTo(int partition, ByteBuffer target, int at) {
        target.put(at, buffer.bytes(), starts[partition], bytes[partition]);
    }

    @Override
    public int copyHead(int partition, byte[] target) {
        int length = Math.min(target.length, bytes[partition]);
        System.arraycopy(buffer.bytes(), starts[partition], target, 0, length);
        return length;
    }
}
