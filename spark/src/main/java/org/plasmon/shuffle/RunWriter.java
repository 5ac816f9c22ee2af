package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.util.function.Consumer;

/** Puts runs into a store that may have no room for a moment, or none for this application. */
final class RunWriter {
    /** How long to wait between two attempts at a full store, in milliseconds. */
    private static final long FULL_STEP_MS = 20;

    private final NativeStore store;
    private final long timeoutMs;

    /**
     * @param store where the runs go
     * @param timeoutMs for how long to wait for room in a full store, in milliseconds
     */
    RunWriter(NativeStore store, long timeoutMs) {
        this.store = store;
        this.timeoutMs = timeoutMs;
    }

    /** Makes a run of this many bytes and seals it when {@code filling} has written them. */
    void write(RunId id, long bytes, Consumer<ByteBuffer> filling) throws StoreException {
        if (bytes > RunLayout.RUN_BYTES_MAX) {
            throw new StoreException("limit_reached", "writing " + id + ": a run of " + bytes
                    + " bytes; use smaller records or fewer partitions");
        }
        try {
            writeOnce(id, bytes, filling);
        } catch (StoreException error) {
            if (!error.isDisconnected()) {
                throw error;
            }
            // Another store may have taken the place of the one before. What this task sealed in
            // that one is missed when it is read, and then made again.
            writeOnce(id, bytes, filling);
        }
    }

    private void writeOnce(RunId id, long bytes, Consumer<ByteBuffer> filling)
            throws StoreException {
        try (NativeStore.Writer writer = create(id, bytes)) {
            filling.accept(writer.memory());
            seal(writer, id);
        }
    }

    /** A full store may have room again when readers let go of what can then be spilled. */
    private NativeStore.Writer create(RunId id, long bytes) throws StoreException {
        long deadline = System.nanoTime() + timeoutMs * 1_000_000;
        while (true) {
            try {
                return store.create(id, bytes);
            } catch (StoreException refused) {
                if (!refused.isFull() || System.nanoTime() >= deadline) {
                    throw refused;
                }
            }
            try {
                Thread.sleep(FULL_STEP_MS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new StoreException(
                        "cancelled", "the task was killed while it waited for room");
            }
        }
    }

    private void seal(NativeStore.Writer writer, RunId id) throws StoreException {
        try {
            writer.seal();
        } catch (StoreException refused) {
            if (refused.isBeyondQuota()) {
                throw new StoreException(refused.key(), "writing " + id
                        + ": the application's quota in the store is used up" + store.limit()
                        + "; raise spark.plasmon.quota.bytes (" + refused.getMessage() + ")");
            }
            throw refused;
        }
    }
}
