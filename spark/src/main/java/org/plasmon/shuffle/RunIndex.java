package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * What the header and some entries of a run say: where the sections of these partitions lie in it.
 */
final class RunIndex {
    private final RunId id;
    private final RunLayout.Header header;
    private final int first;
    private final ByteBuffer entries;

    private RunIndex(RunId id, RunLayout.Header header, int first, ByteBuffer entries) {
        this.id = id;
        this.header = header;
        this.first = first;
        this.entries = entries;
    }

    /**
     * Copies what was read of a run.
     *
     * @param id the run
     * @param head its first bytes, the header
     * @param table its entries from the one of {@code first} on
     */
    static RunIndex of(RunId id, ByteBuffer head, int first, ByteBuffer table)
            throws StoreException {
        RunLayout.Header header = RunLayout.headerOfPart(head, id);
        byte[] copy = new byte[table.remaining()];
        table.get(table.position(), copy);
        ByteBuffer entries = ByteBuffer.wrap(copy).order(ByteOrder.LITTLE_ENDIAN);
        return new RunIndex(id, header, first, entries);
    }

    /** How many bytes it takes, about. */
    long bytes() {
        return 128L + entries.capacity();
    }

    /** Whether it has the entries of these partitions. */
    boolean covers(int from, int to) {
        return from >= first && to - first < entries.capacity() / RunLayout.ENTRY_BYTES;
    }

    /** How many runs the output has; of run 0 alone. */
    int runs() {
        return header.runs();
    }

    /** Where a partition's section lies, after its entry was checked to lie within the run. */
    RunLayout.Place place(int partition) throws StoreException {
        RunLayout.checkPartition(header, id, partition);
        return RunLayout.place(entry(partition), header, id, partition);
    }

    /** Checks a section against the checksum in its entry. */
    void check(int partition, ByteBuffer section) throws StoreException {
        RunLayout.checkSection(entry(partition), section, id, partition);
    }

    private ByteBuffer entry(int partition) {
        int at = RunLayout.ENTRY_BYTES * (partition - first);
        return entries.slice(at, RunLayout.ENTRY_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    }
}
