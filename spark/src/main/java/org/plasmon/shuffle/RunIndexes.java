package org.plasmon.shuffle;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The indexes of runs of other nodes, which all tasks of an executor need: without them each task
 * would read the entries of every run anew. The least recently used ones go when they take more
 * than a share of this process's memory. Any thread may use it.
 */
final class RunIndexes {
    /** For a store that has no runs of other nodes. */
    static final RunIndexes NONE = new RunIndexes(0);

    private static final long BYTES_MAX = 64L << 20;

    /** Which part of the heap it may take at most. */
    private static final int HEAP_PARTS = 32;

    private final Map<RunId, RunIndex> indexes = new LinkedHashMap<>(16, 0.75f, true);
    private final long bytesMax;
    private long bytes;

    RunIndexes() {
        this(Math.min(BYTES_MAX, Runtime.getRuntime().maxMemory() / HEAP_PARTS));
    }

    RunIndexes(long bytesMax) {
        this.bytesMax = bytesMax;
    }

    /** Whether so many bytes of entries may be kept, so that whole tables are worth reading. */
    boolean canKeep(long entriesBytes) {
        return entriesBytes <= bytesMax / 2;
    }

    synchronized RunIndex find(RunId id) {
        return indexes.get(id);
    }

    synchronized void add(RunId id, RunIndex index) {
        RunIndex before = indexes.put(id, index);
        bytes += index.bytes() - (before == null ? 0 : before.bytes());
        Iterator<RunIndex> oldest = indexes.values().iterator();
        while (bytes > bytesMax && oldest.hasNext()) {
            bytes -= oldest.next().bytes();
            oldest.remove();
        }
    }

    /** Drops what is known of a shuffle that is over. */
    synchronized void forget(int shuffle) {
        indexes.entrySet().removeIf(entry -> {
            if (entry.getKey().shuffle() != shuffle) {
                return false;
            }
            bytes -= entry.getValue().bytes();
            return true;
        });
    }
}
