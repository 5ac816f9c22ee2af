package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.LongPredicate;

/**
 * Serialised records in the order of their arrival, which a run takes in the order of their
 * partitions: counted, then copied once, straight to their places in the store's memory.
 */
public final class PartitionedRecords implements RunContent {
    private static final int ROWS_FIRST = 512;

    private final RecordBuffer buffer;
    private final LongPredicate reserve;
    private final int[] bytes;
    private final int[] records;
    private int rows;
    private boolean pressed;
    /** Of each row: its partition, and where it begins; it ends where the next one begins. */
    private int[] partitionOf = new int[ROWS_FIRST];
    private int[] startOf = new int[ROWS_FIRST + 1];
    /** Rows by partition, and where each partition's begin; made by {@link #arrange}. */
    private int[] order = new int[0];
    private final int[] firstOf;

    /**
     * @param buffer where the records are serialised
     * @param partitions how many partitions there are
     * @param reserve called before more memory is taken for the places of records
     */
    public PartitionedRecords(RecordBuffer buffer, int partitions, LongPredicate reserve) {
        this.buffer = buffer;
        this.reserve = reserve;
        this.bytes = new int[partitions];
        this.records = new int[partitions];
        this.firstOf = new int[partitions + 1];
    }

    /** Notes that the buffer now ends with another record, of this partition. */
    public void add(int partition) {
        if (rows == partitionOf.length) {
            grow();
        }
        int start = startOf[rows];
        int end = buffer.size();
        partitionOf[rows++] = partition;
        startOf[rows] = end;
        bytes[partition] += end - start;
        records[partition]++;
    }

    private void grow() {
        // A place, a partition and later a number in the order, of four bytes each.
        pressed |= !reserve.test(12L * partitionOf.length);
        partitionOf = Arrays.copyOf(partitionOf, 2 * partitionOf.length);
        startOf = Arrays.copyOf(startOf, partitionOf.length + 1);
    }

    /** How many records there are. */
    public int rows() {
        return rows;
    }

    /** Whether memory was refused: time to make a run of this. */
    public boolean isPressed() {
        return pressed || buffer.isPressed();
    }

    /** Forgets all records. */
    public void clear() {
        buffer.clear();
        rows = 0;
        pressed = false;
        Arrays.fill(bytes, 0);
        Arrays.fill(records, 0);
    }

    /** Puts the records in the order of their partitions; those of one keep theirs. */
    public void arrange() {
        if (order.length < rows) {
            order = new int[partitionOf.length];
        }
        int sum = 0;
        for (int partition = 0; partition < records.length; partition++) {
            firstOf[partition] = sum;
            sum += records[partition];
        }
        firstOf[records.length] = sum;
        int[] next = Arrays.copyOf(firstOf, records.length);
        for (int row = 0; row < rows; row++) {
            order[next[partitionOf[row]]++] = row;
        }
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
        byte[] from = buffer.bytes();
        int to = at;
        for (int place = firstOf[partition]; place < firstOf[partition + 1]; place++) {
            int row = order[place];
            int length = startOf[row + 1] - startOf[row];
            target.put(to, from, startOf[row], length);
            to += length;
        }
    }

    @Override
    public int copyHead(int partition, byte[] target) {
        byte[] from = buffer.bytes();
        int copied = 0;
        int end = firstOf[partition + 1];
        for (int place = firstOf[partition]; place < end && copied < target.length; place++) {
            int row = order[place];
            int length = Math.min(startOf[row + 1] - startOf[row], target.length - copied);
            System.arraycopy(from, startOf[row], target, copied, length);
            copied += length;
        }
        return copied;
    }

    /** Writes a partition's records one after the other, for a stream that changes them. */
    public void writeTo(int partition, java.io.OutputStream target) throws java.io.IOException {
        byte[] from = buffer.bytes();
        for (int place = firstOf[partition]; place < firstOf[partition + 1]; place++) {
            int row = order[place];
            target.write(from, startOf[row], startOf[row + 1] - startOf[row]);
        }
    }
}
