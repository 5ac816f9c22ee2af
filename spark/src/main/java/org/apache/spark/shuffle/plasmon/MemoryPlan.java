package org.apache.spark.shuffle.plasmon;

import java.util.Locale;

/**
 * How large the store is that a driver starts, so that it fits into the machine, or the container,
 * beside everything else that the application may take there.
 *
 * <pre>
 * nothing asked: what driver, executors and other applications leave, at most half of the machine
 *                └─ less than the floor ─► the floor, and a warning
 * asked:         as asked ─► refused where it does not fit beside them
 * </pre>
 *
 * <p>Limits of processes are no consumption: a virtual machine seldom reaches its own. So without a
 * setting nothing is refused that may have run well, and only what can be counted for certain
 * speaks against a size that was asked for: the executors that there are at least, and of other
 * applications their stores alone.
 *
 * @param storeBytes the capacity of the store
 * @param isTight whether the limits of all processes together exceed what there is
 * @param sentence what was planned with, for the log
 */
record MemoryPlan(long storeBytes, boolean isTight, String sentence) {
    /** A default never exceeds this part of what there is. */
    private static final int PART_MAX = 2;

    /**
     * A default is never less, for each task that may run at once: eight runs of the usual size,
     * where half of that is the least that a task can do with.
     */
    private static final long FLOOR_BYTES_PER_CORE = 64L << 20;

    /** Dropped memory of a store may stay for a while: one of so many parts of what it holds. */
    private static final int SLACK_PARTS = 8;

    /**
     * Where all of it is to fit.
     *
     * @param isContainer whether this is a limit of control groups, and not the machine's memory
     */
    record Place(long bytes, boolean isContainer) {
        private String noun() {
            return isContainer ? "the container" : "the machine";
        }
    }

    /**
     * What the application's processes may take there.
     *
     * @param executors how many are likely
     * @param executorsLeast how many there are for certain
     * @param cores how many tasks may run at once
     */
    record Processes(
            long driverBytes, long executorBytes, int executors, int executorsLeast, int cores) {
        private long bytes(int executors) {
            return driverBytes + executors * executorBytes;
        }

        /** What all that are likely may take together. */
        long bytes() {
            return bytes(executors);
        }

        private String description(int executors) {
            String driver = "the driver " + text(driverBytes);
            return executors == 0
                    ? driver
                    : driver + ", " + executors
                            + (executors == 1 ? " executor of " : " executors of ")
                            + text(executorBytes);
        }
    }

    /** What other applications of this user that run on the machine have planned with. */
    record Others(int applications, long storeBytes, long processBytes) {
        private String description(long bytes) {
            return applications == 0
                    ? ""
                    : ", " + applications + (applications == 1
                            ? " other application " : " other applications ") + text(bytes);
        }
    }

    /** A size that was asked for, and by which setting. */
    record Asked(String setting, long bytes) {}

    /**
     * Plans.
     *
     * @param asked null where no setting says a size
     * @throws IllegalArgumentException if what was asked for does not fit
     */
    static MemoryPlan of(Place place, Processes own, Others others, Asked asked) {
        long ofOthers = withSlack(others.storeBytes()) + others.processBytes();
        long taken = own.bytes() + ofOthers;
        long left = place.bytes() - taken;
        long bytes = asked == null
                ? byDefault(place, own, left)
                : checked(place, own, others, asked);
        boolean isTight = withSlack(bytes) > left;
        String sentence = "the store holds up to " + text(bytes) + " of " + place.noun() + "'s "
                + text(place.bytes())
                + (asked == null ? "" : ", as " + asked.setting() + " says") + "; beside it: "
                + own.description(own.executors())
                + others.description(ofOthers);
        return new MemoryPlan(bytes, isTight, isTight ? sentence + ADVICE : sentence);
    }

    private static final String ADVICE = ". Together that may be more than there is, and a process "
            + "be killed: lower spark.driver.memory, spark.executor.memory or the number of "
            + "executors, or say a smaller share of the memory with " + Settings.MEMORY;

    private static long byDefault(Place place, Processes own, long left) {
        long most = place.bytes() / PART_MAX;
        long floor = Math.min(most, own.cores() * FLOOR_BYTES_PER_CORE);
        long fits = left <= 0 ? 0 : left / (SLACK_PARTS + 1) * SLACK_PARTS;
        return Math.max(floor, Math.min(most, fits));
    }

    private static long checked(Place place, Processes own, Others others, Asked asked) {
        long processes = own.bytes(own.executorsLeast());
        long most = place.bytes() - processes - others.storeBytes();
        if (asked.bytes() <= most) {
            return asked.bytes();
        }
        String change = most > 0
                ? "lower " + asked.setting() + " to at most " + text(most) + ", or lower"
                : "lower";
        throw new IllegalArgumentException(asked.setting() + " asks for a store of "
                + text(asked.bytes()) + ", which does not fit into " + place.noun() + "'s "
                + text(place.bytes()) + " beside the application's processes ("
                + own.description(own.executorsLeast()) + ")"
                + (others.applications() == 0
                        ? ""
                        : " and the stores of other applications that run ("
                                + text(others.storeBytes()) + ")")
                + ": " + change + " spark.driver.memory, spark.executor.memory or the number of "
                + "executors");
    }

    /** What the store may take in the worst case. */
    private static long withSlack(long storeBytes) {
        return storeBytes + storeBytes / SLACK_PARTS;
    }

    private static String text(long bytes) {
        double mebibytes = bytes / (double) (1 << 20);
        return mebibytes < 1024
                ? String.format(Locale.ROOT, "%.0f MiB", mebibytes)
                : String.format(Locale.ROOT, "%.1f GiB", mebibytes / 1024);
    }
}
