package org.apache.spark.shuffle.plasmon;

import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.spark.network.util.JavaUtils;

/**
 * What the settings of an application say about the memory of its processes on the driver's
 * machine: how many executors there may be, and what each may take.
 */
final class PlannedProcesses {
    private static final Pattern LOCAL =
            Pattern.compile("local(?:\\[\\s*([0-9]+|\\*)\\s*(?:,.*)?\\])?");
    private static final Pattern LOCAL_CLUSTER = Pattern.compile(
            "local-cluster\\[\\s*([0-9]+)\\s*,\\s*([0-9]+)\\s*,\\s*([0-9]+)\\s*\\]");

    /** What Spark adds to a heap at least, for everything that is not on it. */
    private static final long OVERHEAD_MIN_BYTES = 384L << 20;

    private static final String MEMORY = "spark.executor.memory";
    private static final String CORES = "spark.executor.cores";
    private static final String CORES_MAX = "spark.cores.max";
    private static final String INSTANCES = "spark.executor.instances";
    private static final String DYNAMIC = "spark.dynamicAllocation.";

    private final UnaryOperator<String> conf;
    private final int machineCores;

    private PlannedProcesses(UnaryOperator<String> conf, int machineCores) {
        this.conf = conf;
        this.machineCores = machineCores;
    }

    /**
     * Reads the settings.
     *
     * @param conf the value of a setting, null where it is not set
     * @param heapBytes how large the driver's heap may become
     * @param machineCores how many cores there are
     * @param isContainer whether it is a container that everything is to fit into; executors of
     *     Kubernetes and YARN have containers of their own
     */
    static MemoryPlan.Processes of(
            UnaryOperator<String> conf, long heapBytes, int machineCores, boolean isContainer) {
        return new PlannedProcesses(conf, machineCores).read(heapBytes, isContainer);
    }

    private MemoryPlan.Processes read(long heapBytes, boolean isContainer) {
        String master = text("spark.master", "local");
        long driver = heapBytes + driverOverhead(heapBytes);
        Matcher local = LOCAL.matcher(master);
        if (local.matches()) {
            String threads = local.group(1);
            int cores = threads == null ? 1 : number(threads);
            return new MemoryPlan.Processes(driver + offHeap() + python(), 0, 0, 0, cores);
        }
        long executor = executorBytes();
        Matcher cluster = LOCAL_CLUSTER.matcher(master);
        if (cluster.matches()) {
            int workers = number(cluster.group(1));
            int cores = number(cluster.group(2));
            int each = perWorker(cores, Long.parseLong(cluster.group(3)) << 20);
            int executors = limited(workers * each);
            return new MemoryPlan.Processes(
                    driver, executor, executors, executors, workers * cores);
        }
        if (master.startsWith("spark://")) {
            return standalone(driver, executor);
        }
        if (isContainer) {
            return new MemoryPlan.Processes(driver, executor, 0, 0, machineCores);
        }
        int instances = limited(count(INSTANCES, 2));
        int least = isDynamic() ? 1 : instances;
        return new MemoryPlan.Processes(driver, executor, instances, least, machineCores);
    }

    /** A worker that nothing else is known of has all cores of the machine, and one executor. */
    private MemoryPlan.Processes standalone(long driver, long executor) {
        int cores = count(CORES_MAX, machineCores);
        int each = count(CORES, cores);
        int executors = limited(Math.max(1, cores / Math.max(1, each)));
        boolean isKnown = isSet(CORES_MAX) && isSet(CORES) && !isDynamic();
        return new MemoryPlan.Processes(
                driver, executor, executors, isKnown ? executors : 1, cores);
    }

    private int perWorker(int cores, long workerBytes) {
        int byCores = isSet(CORES) ? cores / Math.max(1, count(CORES, 1)) : 1;
        long byMemory = workerBytes / Math.max(1, heapBytes());
        return (int) Math.max(1, Math.min(byCores, byMemory));
    }

    /** No more than dynamic allocation may start. */
    private int limited(int executors) {
        return isDynamic()
                ? Math.max(1, Math.min(count(DYNAMIC + "maxExecutors", executors), executors))
                : executors;
    }

    private boolean isDynamic() {
        return isOn(DYNAMIC + "enabled");
    }

    private long heapBytes() {
        return mebibytes(MEMORY, "1g");
    }

    private long executorBytes() {
        long overhead = isSet("spark.executor.memoryOverhead")
                ? mebibytes("spark.executor.memoryOverhead", "0")
                : overhead(heapBytes(), text("spark.executor.memoryOverheadFactor", "0.1"));
        return heapBytes() + overhead + offHeap() + python();
    }

    /** What is set beyond the usual makes the driver's container larger: for the store. */
    private long driverOverhead(long heapBytes) {
        long usual = overhead(heapBytes, "0.1");
        return isSet("spark.driver.memoryOverhead")
                ? Math.min(usual, mebibytes("spark.driver.memoryOverhead", "0"))
                : usual;
    }

    private static long overhead(long heapBytes, String factor) {
        return Math.max(OVERHEAD_MIN_BYTES, (long) (Double.parseDouble(factor) * heapBytes));
    }

    private long offHeap() {
        return isOn("spark.memory.offHeap.enabled")
                ? JavaUtils.byteStringAsBytes(text("spark.memory.offHeap.size", "0"))
                : 0;
    }

    private long python() {
        return mebibytes("spark.executor.pyspark.memory", "0");
    }

    private boolean isSet(String key) {
        return conf.apply(key) != null;
    }

    private String text(String key, String otherwise) {
        String value = conf.apply(key);
        return value == null ? otherwise : value.trim();
    }

    private boolean isOn(String key) {
        return Boolean.parseBoolean(text(key, "false"));
    }

    private int count(String key, int otherwise) {
        return Integer.parseInt(text(key, String.valueOf(otherwise)));
    }

    /** A number without a unit is in mebibytes, as Spark reads it. */
    private long mebibytes(String key, String otherwise) {
        return JavaUtils.byteStringAsMb(text(key, otherwise)) << 20;
    }

    private int number(String text) {
        return text.equals("*") ? machineCores : Integer.parseInt(text);
    }
}
