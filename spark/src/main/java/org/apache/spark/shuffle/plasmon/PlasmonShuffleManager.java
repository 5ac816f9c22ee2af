package org.apache.spark.shuffle.plasmon;

import java.io.UncheckedIOException;

import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.sort.SortShuffleManager;
import org.plasmon.shuffle.StoreException;

/**
 * Keeps Spark's shuffle in the store's shared memory.
 *
 * <pre>
 * map task ─► RowsWriter │ SectionsWriter │ ObjectsWriter ─► runs in the store, named by attempt
 *          ─► MapStatus
 * reduce task ─► MapStatus says which attempts ─► StoreReader maps their runs ─► records
 * </pre>
 *
 * <p>It extends Spark's own sort manager for three reasons, and shares nothing else with it: SQL
 * copies every row before the shuffle unless the manager is one; Spark 4.3 takes no manager that is
 * not a {@code BlockingShuffleManager}, which the sort manager is there and which 3.5 does not
 * know; and its block resolver truthfully says that no block lies in local files. See
 * docs/adr/0025.
 */
public class PlasmonShuffleManager extends SortShuffleManager {
    private final SparkConf conf;
    private final Application application;

    /** Called by Spark in the driver and in every executor. */
    public PlasmonShuffleManager(SparkConf conf, boolean isDriver) {
        super(conf);
        this.conf = conf;
        if (isDriver) {
            check(conf);
            // Otherwise dynamic allocation keeps executors for outputs that they do not hold.
            conf.setIfMissing(Settings.SHUFFLE_TRACKING, "false");
        }
        this.application = Application.join(conf, isDriver);
    }

    private static void check(SparkConf conf) {
        String wanted = PlasmonShuffleDataIO.class.getName();
        String found = conf.get(Settings.DATA_IO, "");
        if (!found.equals(wanted)) {
            throw new IllegalArgumentException(
                    "Plasmon's shuffle manager needs " + Settings.DATA_IO + "=" + wanted
                            + " beside it, found \"" + found + "\": without it Spark takes the "
                            + "loss of an executor for the loss of its map outputs");
        }
        if (conf.getBoolean("spark.shuffle.push.enabled", false)) {
            throw new IllegalArgumentException(
                    "Plasmon's shuffle needs no merging on other nodes: unset "
                            + "spark.shuffle.push.enabled");
        }
        ExecutorClassPath.check(
                conf.get("spark.master", ""),
                conf.get(Settings.DRIVER_CLASS_PATH, ""),
                conf.get(Settings.EXECUTOR_CLASS_PATH, ""));
        Settings.runBytes(conf);
        Settings.timeoutMs(conf);
        Settings.quotaBytes(conf);
        Settings.pool(conf);
        Settings.copies(conf);
        Settings.awaitsCopies(conf);
    }

    @Override
    public <K, V, C> ShuffleHandle registerShuffle(
            int shuffleId, ShuffleDependency<K, V, C> dependency) {
        JobFailures.check();
        application.listen(
                shuffleId, dependency.rdd(), dependency.partitioner().numPartitions());
        return new BaseShuffleHandle<>(shuffleId, dependency);
    }

    @Override
    public <K, V> ShuffleWriter<K, V> getWriter(
            ShuffleHandle handle,
            long mapId,
            TaskContext context,
            ShuffleWriteMetricsReporter metrics) {
        JobFailures.check();
        application.observe();
        ShuffleDependency<K, V, Object> dependency = dependencyOf(handle);
        MapTask<K, V> task = new MapTask<>(
                application, conf, dependency, mapId, context, metrics);
        if (dependency.mapSideCombine()) {
            return new ObjectsWriter<>(task);
        }
        if (dependency.serializer().supportsRelocationOfSerializedObjects()) {
            return new RowsWriter<>(task);
        }
        return task.partitions <= Settings.streamsMax(conf)
                ? new SectionsWriter<>(task)
                : new ObjectsWriter<>(task);
    }

    @Override
    public <K, C> ShuffleReader<K, C> getReader(
            ShuffleHandle handle,
            int startMapIndex,
            int endMapIndex,
            int startPartition,
            int endPartition,
            TaskContext context,
            ShuffleReadMetricsReporter metrics) {
        JobFailures.check();
        ShuffleDependency<K, Object, C> dependency = dependencyOf(handle);
        int shuffle = handle.shuffleId();
        int partitions = dependency.partitioner().numPartitions();
        MapBlocks[] blocks = SurvivingOutputs.orRestored(conf, shuffle, partitions,
                () -> MapBlocks.of(SparkEnv.get().mapOutputTracker().getMapSizesByExecutorId(
                        shuffle, startMapIndex, endMapIndex, startPartition, endPartition)));
        OutputReaders readers = new OutputReaders(
                application.store(), shuffle, blocks, poolReads(shuffle, partitions));
        Blocks source = new Blocks(
                readers, shuffle, blocks, metrics, Streams.of(conf),
                lost -> LostOutputs.report(conf, new LostOutputs.Report(
                        shuffle, lost.mapIndex(), lost.mapId(), partitions)));
        return new StoreReader<>(
                application.store(), conf, dependency, source, context, metrics);
    }

    /** What a reader in a pool needs to know; {@code null} in the store of one machine. */
    private OutputReaders.Pool poolReads(int shuffle, int partitions) {
        PoolMember pool = application.pool();
        if (pool == null) {
            return null;
        }
        try {
            return new OutputReaders.Pool(pool.slot(), pool.source(conf, shuffle, partitions));
        } catch (StoreException error) {
            throw new UncheckedIOException(error);
        }
    }

    @SuppressWarnings("unchecked")
    private static <K, V, C> ShuffleDependency<K, V, C> dependencyOf(ShuffleHandle handle) {
        return ((BaseShuffleHandle<K, V, C>) handle).dependency();
    }

    /**
     * Executors hold nothing of a shuffle but files that they have read in; the driver's components
     * delete it in the store.
     */
    @Override
    public boolean unregisterShuffle(int shuffleId) {
        application.store().closeFiles(shuffleId);
        return true;
    }

    @Override
    public void stop() {
        application.leave();
        super.stop();
    }
}
