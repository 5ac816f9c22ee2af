package org.plasmon.shuffle;

import java.nio.ByteBuffer;

/**
 * Goes through the sections of some partitions in the output of one attempt: run by run, with one
 * run held in memory at a time, so that the store may spill the others. A run that was spilled is
 * read where it is, unless the reader wants all of it.
 */
public final class SectionReader implements Sections {
    private final NativeStore store;
    private final int shuffle;
    private final long map;
    private final int[] partitions;
    private final SpilledRun.Memory memory;
    private NativeStore.Pin pin;
    /** Instead of the pin, where the run is not in memory. */
    private SpilledRuns.OpenRun spilled;
    private RunId id;
    private int runs;
    private int run = -1;
    private int next;
    private int records;
    private long bytesSeen;
    private long waitedNs;

    /**
     * @param store where the output is
     * @param shuffle Spark's number of the shuffle
     * @param map the attempt that Spark lists
     * @param partitions the partitions wanted
     */
    public SectionReader(NativeStore store, int shuffle, long map, int[] partitions) {
        this(store, shuffle, map, partitions, new SpilledRun.Memory());
    }

    private SectionReader(NativeStore store, int shuffle, long map, int[] partitions,
            SpilledRun.Memory memory) {
        this.memory = memory;
        this.store = store;
        this.shuffle = shuffle;
        this.map = map;
        this.partitions = partitions;
        this.next = partitions.length;
    }

    /** A reader of another output, for the same task: sections of this one's do not stay. */
    public SectionReader followedBy(long map, int[] partitions) {
        close();
        return new SectionReader(store, shuffle, map, partitions, memory);
    }

    /** The attempt. */
    public long map() {
        return map;
    }

    @Override
    public int partition() {
        return partitions[Math.max(0, Math.min(next, partitions.length) - 1)];
    }

    @Override
    public int records() {
        return records;
    }

    @Override
    public long takeWaitedNs() {
        long waited = waitedNs;
        waitedNs = 0;
        return waited;
    }

    @Override
    public ByteBuffer next() throws StoreException {
        while (true) {
            while (next < partitions.length) {
                int partition = partitions[next++];
                RunLayout.Section section = section(partition);
                if (section.bytes().capacity() > 0) {
                    records = section.records();
                    bytesSeen += section.bytes().capacity();
                    return section.bytes();
                }
            }
            if (run >= 0 && run + 1 >= runs) {
                return end();
            }
            open(run + 1);
        }
    }

    /** Spark lists only partitions that have bytes; finding none means that they were lost. */
    private ByteBuffer end() throws StoreException {
        close();
        if (bytesSeen == 0) {
            throw new StoreException("corrupt", "reading " + new RunId(shuffle, map, 0)
                    + ": Spark lists bytes in a partition that is empty");
        }
        return null;
    }

    private RunLayout.Section section(int partition) throws StoreException {
        if (spilled != null) {
            long began = System.nanoTime();
            try {
                RunLayout.Section section = spilled.run().section(partition, memory);
                if (section != null) {
                    return section;
                }
                close();
                pin = store.open(id);
            } finally {
                waitedNs += System.nanoTime() - began;
            }
            RunLayout.header(pin.memory(), id);
        }
        return RunLayout.section(pin.memory(), id, partition);
    }

    private RunLayout.Header openRun() throws StoreException {
        pin = store.openInMemory(id);
        if (pin == null) {
            spilled = store.spilledRuns().take(id);
            RunLayout.Header header = spilled.run().header();
            if (header.partitions() > partitions.length) {
                return header;
            }
            // All of it is wanted.
            close();
            pin = store.open(id);
        }
        return RunLayout.header(pin.memory(), id);
    }

    private void open(int number) throws StoreException {
        close();
        id = new RunId(shuffle, map, number);
        long began = System.nanoTime();
        RunLayout.Header header;
        try {
            header = openRun();
        } finally {
            waitedNs += System.nanoTime() - began;
        }
        if (number == 0) {
            runs = header.runs();
        }
        run = number;
        next = 0;
    }

    @Override
    public void close() {
        if (pin != null) {
            pin.close();
            pin = null;
        }
        if (spilled != null) {
            store.spilledRuns().release(spilled);
            spilled = null;
        }
    }
}
