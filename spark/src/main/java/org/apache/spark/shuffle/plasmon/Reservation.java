package org.apache.spark.shuffle.plasmon;

import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.memory.TaskMemoryManager;

/** A map task's account with Spark's memory manager, for what it holds on the heap. */
final class Reservation extends MemoryConsumer {
    Reservation(TaskMemoryManager memory) {
        super(memory, MemoryMode.ON_HEAP);
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

    void release(long bytes) {
        freeMemory(bytes);
    }

    void releaseAll() {
        freeMemory(getUsed());
    }

    /**
     * Others may not take from a task in the middle of a record. It gives its memory back whenever
     * it is refused more, and at every run.
     */
    @Override
    public long spill(long size, MemoryConsumer trigger) {
        return 0;
    }
}
