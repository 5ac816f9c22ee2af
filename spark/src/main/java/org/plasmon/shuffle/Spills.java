package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What one task puts aside in the store because its memory is short, and reads again itself. The
 * store keeps it in memory as long as it has room, and in its files then.
 *
 * <p>It lies among the runs of a shuffle, under a number that no map attempt has, so it is deleted
 * with the shuffle if the task dies. Each piece is a run of one partition.
 */
public final class Spills implements AutoCloseable {
    /** Tells apart what one task puts aside for several reads of one shuffle. */
    private static final AtomicInteger SEQUENCE = new AtomicInteger();

    private static final int SEQUENCE_BITS = 16;

    private final NativeStore store;
    private final RunWriter writer;
    private final int shuffle;
    private final long number;
    private int pieces;
    private long bytes;
    private boolean closed;

    /**
     * @param store where it goes
     * @param shuffle Spark's number of the shuffle that the task reads
     * @param task Spark's number of the task's attempt, 0 or more
     * @param timeoutMs for how long to wait for room in a full store, in milliseconds
     */
    public Spills(NativeStore store, int shuffle, long task, long timeoutMs) {
        this.store = store;
        this.writer = new RunWriter(store, timeoutMs);
        this.shuffle = shuffle;
        this.number = numberOf(task, SEQUENCE.getAndIncrement());
    }

    /** The number in a run's name that says "put aside by this task": less than 0. */
    private static long numberOf(long task, int sequence) {
        return ~(task << SEQUENCE_BITS | sequence & (1 << SEQUENCE_BITS) - 1);
    }

    /** How many bytes were put aside. */
    public synchronized long bytes() {
        return bytes;
    }

    /** Begins something to put aside. */
    public Spill begin() {
        return new Spill();
    }

    private synchronized RunId write(RecordBuffer buffer, int records) throws StoreException {
        if (closed) {
            throw new StoreException("cancelled", "the task that spilled has ended");
        }
        RunId id = new RunId(shuffle, number, pieces);
        int length = buffer.size();
        writer.write(id, RunLayout.payloadStart(1) + length, memory -> {
            RunLayout.putHeader(memory, id, new RunLayout.Header(1, 0, records, length));
            memory.put((int) RunLayout.payloadStart(1), buffer.bytes(), 0, length);
            RunLayout.putEntry(memory, 0, 0, length, records);
        });
        pieces++;
        bytes += length;
        return id;
    }

    private byte[] read(RunId id) throws StoreException {
        try (NativeStore.Pin pin = store.open(id)) {
            RunLayout.header(pin.memory(), id);
            ByteBuffer section = RunLayout.section(pin.memory(), id, 0).bytes();
            byte[] copy = new byte[section.remaining()];
            section.get(copy);
            return copy;
        }
    }

    /** Drops everything; pieces that were not read are lost, and later writes fail and say so. */
    @Override
    public synchronized void close() throws StoreException {
        closed = true;
        if (pieces > 0) {
            store.deleteAttempt(shuffle, number, pieces);
            pieces = 0;
        }
    }

    /** Pieces that are read once, in the order in which they were added. */
    public final class Spill {
        private final Deque<RunId> pieces = new ArrayDeque<>();

        private Spill() {}

        /** Adds the records in the buffer, {@code records} of them. */
        public void add(RecordBuffer buffer, int records) throws StoreException {
            pieces.add(write(buffer, records));
        }

        /**
         * A copy of the next piece, checked against its checksum; {@code null} at the end. A copy,
         * because a reader may use it after the task has ended and given everything back.
         */
        public byte[] next() throws StoreException {
            RunId id = pieces.poll();
            return id == null ? null : read(id);
        }
    }
}
