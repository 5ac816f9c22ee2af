package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The output of one attempt at a map task on its way into the store: runs that are sealed one after
 * the other. The last one becomes run 0 and says how many there are, so an attempt that dies in the
 * middle never looks finished.
 *
 * <pre>
 * seal(.., false) ─► run 1, seal(.., false) ─► run 2, ... seal(.., true) ─► run 0: committed
 *                                                     └─ abort() ─► all deleted
 * </pre>
 */
public final class MapOutput {
    private final NativeStore store;
    private final RunWriter writer;
    private final int shuffle;
    private final long map;
    private final long[] partitionBytes;
    private long bytes;
    private long records;
    private int runs;
    private boolean committed;

    /**
     * @param store where the runs go
     * @param first the id of any run of the output; its run number is not used
     * @param partitions how many partitions there are
     * @param timeoutMs for how long to wait for room in a full store, in milliseconds
     */
    public MapOutput(NativeStore store, RunId first, int partitions, long timeoutMs) {
        this.store = store;
        this.shuffle = first.shuffle();
        this.map = first.map();
        this.writer = new RunWriter(store, timeoutMs);
        this.partitionBytes = new long[partitions];
    }

    /** Whether every run of an attempt's output is in the store; none is brought back for that. */
    public static boolean isWhole(NativeStore store, int shuffle, long map) throws StoreException {
        try {
            int runs = runs(store, new RunId(shuffle, map, 0));
            for (int run = 1; run < runs; run++) {
                store.openPieces(new RunId(shuffle, map, run)).close();
            }
            return true;
        } catch (StoreException error) {
            if (error.isLoss()) {
                return false;
            }
            throw error;
        }
    }

    /** Deletes whatever an attempt left, committed or not; how many runs that were. */
    public static int delete(NativeStore store, int shuffle, long map) throws StoreException {
        int left = 0;
        int next = 1;
        if (isThere(store, new RunId(shuffle, map, 0))) {
            left++;
        }
        while (isThere(store, new RunId(shuffle, map, next))) {
            left++;
            next++;
        }
        if (left > 0) {
            store.deleteAttempt(shuffle, map, next);
        }
        return left;
    }

    private static boolean isThere(NativeStore store, RunId id) throws StoreException {
        try {
            store.openPieces(id).close();
            return true;
        } catch (StoreException error) {
            if (error.isLoss()) {
                return false;
            }
            throw error;
        }
    }

    private static int runs(NativeStore store, RunId first) throws StoreException {
        ByteBuffer header = ByteBuffer.allocateDirect(RunLayout.HEADER_BYTES);
        try (NativeStore.Pieces pieces = store.openPieces(first)) {
            if (pieces.bytes() < RunLayout.HEADER_BYTES) {
                return RunLayout.runs(header, first);
            }
            pieces.read(0, header);
            return RunLayout.runs(header.order(ByteOrder.LITTLE_ENDIAN), first);
        }
    }

    /** How many bytes each partition has so far. */
    public long[] partitionBytes() {
        return partitionBytes;
    }

    /** How many bytes all sections have so far. */
    public long bytes() {
        return bytes;
    }

    /** How many records were sealed so far. */
    public long records() {
        return records;
    }

    /** How many runs were sealed so far. */
    public int runs() {
        return runs;
    }

    /** Makes a run of this content; the last one commits the output. */
    public void seal(RunContent content, boolean last) throws StoreException {
        int partitions = partitionBytes.length;
        long payload = 0;
        long rows = 0;
        for (int partition = 0; partition < partitions; partition++) {
            payload += content.bytes(partition);
            rows += content.records(partition);
        }
        if (last && rows == 0 && runs == 0) {
            // An output whose partitions are all empty is never read.
            committed = true;
            return;
        }
        RunId id = new RunId(shuffle, map, last ? 0 : runs + 1);
        RunLayout.Header header =
                new RunLayout.Header(partitions, last ? runs + 1 : 0, rows, payload);
        writer.write(id, RunLayout.payloadStart(partitions) + payload, memory -> {
            RunLayout.putHeader(memory, id, header);
            fill(memory, content);
        });
        runs++;
        bytes += payload;
        records += rows;
        for (int partition = 0; partition < partitions; partition++) {
            partitionBytes[partition] += content.bytes(partition);
        }
        committed = last;
    }

    private static void fill(ByteBuffer memory, RunContent content) {
        int partitions = RunLayout.partitions(memory);
        int payload = (int) RunLayout.payloadStart(partitions);
        int at = 0;
        for (int partition = 0; partition < partitions; partition++) {
            int length = content.bytes(partition);
            if (length > 0) {
                content.copyTo(partition, memory, payload + at);
            }
            RunLayout.putEntry(memory, partition, at, length, content.records(partition));
            at += length;
        }
    }

    /** Waits until all runs have their copies in the pool. */
    public void settle() throws StoreException {
        if (runs > 0) {
            store.settle(shuffle, map, runs);
        }
    }

    /** Takes back what was sealed, unless the output is committed. */
    public void abort() throws StoreException {
        if (!committed && runs > 0) {
            store.deleteAttempt(shuffle, map, runs + 1);
        }
    }
}
