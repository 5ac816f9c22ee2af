package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/**
 * Parts of runs of all nodes of a pool, in the order asked for. What one node has of them comes
 * together, so many small parts take little longer than one of the same bytes. For one thread.
 */
final class Gather implements AutoCloseable {
    /** How many numbers stand for one part. */
    private static final int NUMBERS = 5;

    private long gather;

    private Gather(long gather) {
        this.gather = gather;
    }

    /**
     * A part of a run.
     *
     * @param run the run
     * @param slot the number of the node that made it
     * @param start where in the run the part begins, in bytes
     * @param end where it ends
     */
    record Part(RunId run, int slot, long start, long end) {}

    /** Asks for parts, so many bytes ahead. */
    static Gather begin(NativeStore store, List<Part> parts, long bytesAhead)
            throws StoreException {
        long[] wanted = new long[NUMBERS * parts.size()];
        int at = 0;
        for (Part part : parts) {
            wanted[at++] = part.run().shuffleAndRun();
            wanted[at++] = part.run().map();
            wanted[at++] = part.slot();
            wanted[at++] = part.start();
            wanted[at++] = part.end();
        }
        return new Gather(begin0(store.handleForCalls(), wanted, bytesAhead));
    }

    /** The next part; an error is that of this part alone. */
    NativeStore.Pin next() throws StoreException {
        long[] pin = new long[1];
        ByteBuffer memory = next0(gather, pin);
        if (memory == null) {
            return new NativeStore.Pin(0, ByteBuffer.allocate(0));
        }
        return new NativeStore.Pin(
                pin[0], memory.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN));
    }

    @Override
    public void close() {
        if (gather != 0) {
            long given = gather;
            gather = 0;
            end0(given);
        }
    }

    private static native long begin0(long store, long[] wanted, long bytesAhead)
            throws StoreException;

    private static native ByteBuffer next0(long gather, long[] pin) throws StoreException;

    private static native void end0(long gather);
}
