package org.apache.spark.shuffle.plasmon;

import java.util.function.UnaryOperator;

import org.apache.spark.SparkConf;
import org.apache.spark.network.util.JavaUtils;

/**
 * What an application may set, and what its driver tells its executors. Each setting is described
 * with its default and unit in docs/guides/spark.md.
 */
final class Settings {
    /** The socket of a running store. Unset: the driver starts one for the application. */
    static final String STORE = "spark.plasmon.store";

    /**
     * Whether the shuffle is on the pool of several nodes: {@link #POOL_AUTO}, {@link #POOL_NONE},
     * or what the application's namespace in the pool begins with.
     */
    static final String POOL = "spark.plasmon.pool";

    /** On the pool if the driver's store belongs to one, and the master is not a local one. */
    static final String POOL_AUTO = "auto";

    /** In the store of one machine. */
    static final String POOL_NONE = "none";

    /** How many nodes of the pool keep an output; 0 for two where there are several. */
    static final String COPIES = "spark.plasmon.copies";

    /** Whether a map task waits for the copies of its output: {@code sync} or {@code async}. */
    static final String ACK = "spark.plasmon.ack";

    /** How much the application's own store holds, in bytes; 0 for what {@link #MEMORY} says. */
    static final String STORE_BYTES = "spark.plasmon.store.bytes";

    /**
     * How much of the machine's or the container's memory the application's own store holds: a
     * share, such as 0.3, or bytes. Unset: what the application's processes leave, at most half.
     */
    static final String MEMORY = "spark.plasmon.memory";

    /**
     * How much the application may have in the store, in memory and spilled, and in a pool in all
     * stores with all copies; 0 for no limit.
     */
    static final String QUOTA_BYTES = "spark.plasmon.quota.bytes";

    /**
     * Where the application's own store spills. Unset: Spark's local directories, where they are
     * set and on a disk, else {@code /var/tmp}.
     */
    static final String SPILL_DIRECTORY = "spark.plasmon.store.spillDir";

    /** How many bytes of records a task collects before it makes a run of them. */
    static final String RUN_BYTES = "spark.plasmon.run.bytes";

    /** Whether records are compressed with Spark's codec. */
    static final String COMPRESS = "spark.plasmon.compress";

    /** For how long to wait for the store, for room in it and for what was spilled. */
    static final String TIMEOUT = "spark.plasmon.timeout";

    /** The daemon's program. Unset: the one in the jar. */
    static final String DAEMON = "spark.plasmon.daemon";

    /** Told by the driver: the socket that the application uses. */
    static final String SOCKET = "spark.plasmon.internal.socket";

    /** Told by the driver: the namespace of the application's objects. */
    static final String NAMESPACE = "spark.plasmon.internal.namespace";

    /** Told by the driver: the machine that it runs on. */
    static final String MACHINE = "spark.plasmon.internal.machine";

    /** Told by the driver: how many nodes of the pool keep an output. */
    static final String POOL_COPIES = "spark.plasmon.internal.copies";

    /** Told by the driver: its node in the pool, by slot and name. */
    static final String POOL_NODE = "spark.plasmon.internal.node";

    /** Spark's setting for what stands beside a shuffle manager. */
    static final String DATA_IO = "spark.shuffle.sort.io.plugin.class";

    /** Spark's setting for what the driver has on its class path before all else. */
    static final String DRIVER_CLASS_PATH = "spark.driver.extraClassPath";

    /** Spark's setting for what executors have on their class path before all else. */
    static final String EXECUTOR_CLASS_PATH = "spark.executor.extraClassPath";

    /** Spark's setting for keeping executors whose map outputs may be needed; on by default. */
    static final String SHUFFLE_TRACKING = "spark.dynamicAllocation.shuffleTracking.enabled";

    /** Spark's setting for what a collection may take before the memory manager is asked. */
    private static final String UNASKED_BYTES = "spark.shuffle.spill.initialMemoryThreshold";

    /** Spark's setting for the records after which a collection is emptied, for tests. */
    private static final String RECORDS_MAX = "spark.shuffle.spill.numElementsForceSpillThreshold";

    /** Spark's setting for how many partitions may each have a stream of their own. */
    private static final String STREAMS_MAX = "spark.shuffle.sort.bypassMergeThreshold";

    /** What an array of keys and values that doubles when it is full can hold. */
    private static final int ARRAY_RECORDS_MAX = 1 << 28;

    /** Spark's setting for what a reduce task has on its way. */
    private static final String BYTES_AHEAD = "spark.reducer.maxSizeInFlight";

    private static final int COPIES_MAX = 8;

    private static final long RUN_BYTES_MIN = 64L << 10;
    private static final long RUN_BYTES_MAX = 1L << 30;

    private Settings() {}

    static long runBytes(SparkConf conf) {
        long bytes = conf.getSizeAsBytes(RUN_BYTES, "8m");
        if (bytes < RUN_BYTES_MIN || bytes > RUN_BYTES_MAX) {
            throw new IllegalArgumentException(
                    RUN_BYTES + " must be from 64k to 1g, found " + conf.get(RUN_BYTES));
        }
        return bytes;
    }

    /** {@link #POOL_AUTO}, {@link #POOL_NONE}, or a prefix that begins with {@code @}. */
    static String pool(SparkConf conf) {
        String pool = conf.get(POOL, POOL_AUTO);
        boolean isPrefix = pool.startsWith("@") && pool.length() > 1 && !pool.contains(":");
        if (!isPrefix && !pool.equals(POOL_AUTO) && !pool.equals(POOL_NONE)) {
            throw new IllegalArgumentException(POOL + " must be auto, none or what namespaces "
                    + "begin with, such as @spark; found " + pool);
        }
        return pool;
    }

    /** How many nodes are to keep an output; 0 where the application does not say. */
    static int copies(SparkConf conf) {
        int copies = conf.getInt(COPIES, 0);
        if (copies < 0 || copies > COPIES_MAX) {
            throw new IllegalArgumentException(
                    COPIES + " must be from 0 to " + COPIES_MAX + ", found " + copies);
        }
        return copies;
    }

    static boolean awaitsCopies(SparkConf conf) {
        String ack = conf.get(ACK, "sync");
        if (!ack.equals("sync") && !ack.equals("async")) {
            throw new IllegalArgumentException(ACK + " must be sync or async, found " + ack);
        }
        return ack.equals("sync");
    }

    static long bytesAhead(SparkConf conf) {
        return conf.getSizeAsBytes(BYTES_AHEAD, "48m");
    }

    /**
     * The size that a setting says for the application's own store, else null.
     *
     * @param conf the value of a setting, null where it is not set
     */
    static MemoryPlan.Asked storeBytes(UnaryOperator<String> conf, long placeBytes) {
        String size = conf.apply(STORE_BYTES);
        long bytes = size == null ? 0 : JavaUtils.byteStringAsBytes(size);
        if (bytes > 0) {
            return new MemoryPlan.Asked(STORE_BYTES + "=" + size, bytes);
        }
        String text = conf.apply(MEMORY);
        return text == null || text.isBlank()
                ? null
                : new MemoryPlan.Asked(MEMORY + "=" + text, memoryBytes(text.trim(), placeBytes));
    }

    private static long memoryBytes(String text, long placeBytes) {
        long bytes;
        try {
            bytes = text.matches("[0-9]*\\.[0-9]+|[01]")
                    ? share(Double.parseDouble(text), placeBytes)
                    : JavaUtils.byteStringAsBytes(text);
        } catch (NumberFormatException wrong) {
            bytes = 0;
        }
        if (bytes <= 0) {
            throw new IllegalArgumentException(MEMORY + " must be a share of the memory between 0 "
                    + "and 1, such as 0.3, or bytes, such as 4g; found " + text);
        }
        return bytes;
    }

    private static long share(double share, long placeBytes) {
        return share > 1 ? 0 : (long) (share * placeBytes);
    }

    static long quotaBytes(SparkConf conf) {
        return conf.getSizeAsBytes(QUOTA_BYTES, "0");
    }

    static long timeoutMs(SparkConf conf) {
        return conf.getTimeAsMs(TIMEOUT, "30s");
    }

    static boolean compress(SparkConf conf) {
        return conf.getBoolean(COMPRESS, false);
    }

    static long initialBytes(SparkConf conf) {
        return conf.getSizeAsBytes(UNASKED_BYTES, "5m");
    }

    static int recordsMax(SparkConf conf) {
        return conf.getInt(RECORDS_MAX, ARRAY_RECORDS_MAX);
    }

    static int streamsMax(SparkConf conf) {
        return conf.getInt(STREAMS_MAX, 200);
    }
}
