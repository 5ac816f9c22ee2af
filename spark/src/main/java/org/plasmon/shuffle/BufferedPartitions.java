package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.LongConsumer;
import java.util.function.LongPredicate;

/** Sections that all grow at the same time, each in its own memory. */
public final class BufferedPartitions implements RunContent {
    private final RecordBuffer[] sections;
    private final int[] records;

    /**
     * @param partitions how many partitions there are
     * @param reserve called before more memory is taken
     * @param release called with the bytes that are freed before the task ends
     */
    public BufferedPartitions(int partitions, LongPredicate reserve, LongConsumer release) {
        this.sections = new RecordBuffer[partitions];
        Arrays.setAll(sections, partition -> new RecordBuffer(reserve, release));
        this.records = new int[partitions];
    }

    /** Where a partition's section is written. */
    public RecordBuffer section(int partition) {
        return sections[partition];
    }

    /** Notes that a section has another record. */
    public void count(int partition) {
        records[partition]++;
    }

    /** Forgets all sections. */
    public void clear() {
        for (RecordBuffer section : sections) {
            section.clear();
        }
        Arrays.fill(records, 0);
    }

    @Override
    public int bytes(int partition) {
        return sections[partition].size();
    }

    @Override
    public int records(int partition) {
        return records[partition];
    }

    @Override
    public void copyTo(int partition, ByteBuffer target, int at) {
        RecordBuffer section = sections[partition];
        target.put(at, section.bytes(), 0, section.size());
    }

    @Override
    public int copyHead(int partition, byte[] target) {
        int length = Math.min(target.length, bytes(partition));
        System.arraycopy(sections[partition].bytes(), 0, target, 0, length);
        return length;
    }
}
