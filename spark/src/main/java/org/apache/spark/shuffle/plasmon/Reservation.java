package org.apache.spark.shuffle.plasmon;

import java.io.IOException;

import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.memory.TaskMemoryManager;

/** A task's account with Spark's memory manager, for what it holds on the heap. */
final class Reservation extends MemoryConsumer {
    /** Spills what the account is for. */
    interface SpillCallback {
        /** Whether it did; it did not if there was nothing or this is a bad moment. */
        boolean spill() throws IOException;
    }

    private volatile SpillCallback spilling = () -> false;

    Reservation(TaskMemoryManager memory) {
        super(memory, MemoryMode.ON_HEAP);
    }

    /**
     * What spills when another part of the same task wants memory. Until then others get nothing:
     * a task in the middle of a record gives its memory back when it is refused more.
     */
    void spillWith(SpillCallback asked) {
        spilling = asked;
    }

    /** Asks for memory; what is granted in part is given back. */
    boolean reserve(long bytes) {
        if (bytes <= 0) {
            return true;
        }
        long granted = acquireMemory(bytes);
        if (granted < bytes) {
            freeMemory(granted);
            return false;
        }
        return true;
    }

    /** Gives memory back; what a spill gave back meanwhile is not given back twice. */
    void release(long bytes) {
        freeMemory(Math.min(bytes, getUsed()));
    }

    void releaseAll() {
        freeMemory(getUsed());
    }

    @Override
    public long spill(long size, MemoryConsumer trigger) throws IOException {
        if (trigger == this || !spilling.spill()) {
            return 0;
        }
        long freed = getUsed();
        freeMemory(freed);
        return freed;
    }
}
