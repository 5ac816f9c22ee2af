package org.plasmon.shuffle;

import java.util.concurrent.atomic.LongAdder;

/**
 * How often and how long a process waited for the store to have room for its next run. What is
 * granted at once, or for which memory had to be allocated first, is no wait.
 */
public final class RoomWaits {
    /** What takes longer than this waited for other objects to be spilled. */
    private static final long GRANT_NS_MAX = 20_000_000;

    private static final long NS_PER_MS = 1_000_000;

    private final LongAdder count = new LongAdder();
    private final LongAdder ns = new LongAdder();

    void add(long grantNs) {
        if (grantNs > GRANT_NS_MAX) {
            count.increment();
            ns.add(grantNs);
        }
    }

    /** How often. */
    public long count() {
        return count.sum();
    }

    /** How long in all, in milliseconds. */
    public long totalMs() {
        return ns.sum() / NS_PER_MS;
    }
}
