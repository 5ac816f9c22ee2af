package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.ShuffleBlockId;
import org.plasmon.shuffle.MapOutput;
import org.plasmon.shuffle.RunContent;
import org.plasmon.shuffle.RunId;
import org.plasmon.shuffle.StoreException;
import scala.Option;

/** The task whose output a writer writes, and the output itself. */
final class MapTask<K, V> {
    final SparkConf conf;
    final ShuffleDependency<K, V, Object> dependency;
    final TaskContext context;
    final ShuffleWriteMetricsReporter metrics;
    final Reservation reservation;
    final Streams streams;
    final RowChecksums checksums;
    final int partitions;
    final int runBytes;
    private final long mapId;
    /**
     * What the output is called. It is Spark's map id, unless {@code useOldFetchProtocol} makes
     * that the map task's number, under which two attempts would write the same output.
     */
    private final long attempt;
    private final MapOutput output;
    /** {@code null} in the store of one machine. */
    private final PoolMember pool;
    /** The number of the node in a pool that the output is written on, as it was at the start. */
    private final int slot;
    /** What {@code MapStatus} says; {@code null} where that is what the store has. */
    private final ReportedSizes sizes;

    MapTask(
            Application application,
            SparkConf conf,
            ShuffleDependency<K, V, Object> dependency,
            long mapId,
            TaskContext context,
            ShuffleWriteMetricsReporter metrics) {
        this.conf = conf;
        this.pool = application.pool();
        this.slot = slotOf(pool);
        this.dependency = dependency;
        this.mapId = mapId;
        this.attempt = context.taskAttemptId();
        this.context = context;
        this.metrics = metrics;
        this.partitions = dependency.partitioner().numPartitions();
        this.runBytes = (int) Settings.runBytes(conf);
        this.reservation = new Reservation(context.taskMemoryManager());
        this.streams = Streams.of(conf);
        this.checksums = RowChecksums.of(dependency);
        RunId first = new RunId(dependency.shuffleId(), attempt, 0);
        this.output = new MapOutput(
                application.store(), first, partitions, Settings.timeoutMs(conf));
        // What goes through compression has its size by then, and what is encrypted keeps its own.
        this.sizes = streams.arePlain()
                ? streams.reportedSizes(this::block)
                : null;
    }

    private static int slotOf(PoolMember pool) {
        try {
            return pool == null ? 0 : pool.slot();
        } catch (StoreException error) {
            throw new UncheckedIOException(error);
        }
    }

    ShuffleBlockId block(int partition) {
        return new ShuffleBlockId(dependency.shuffleId(), attempt, partition);
    }

    int partitionOf(Object key) {
        return dependency.partitioner().getPartition(key);
    }

    /** Puts a run into the store and counts it; the last one commits the output. */
    void seal(RunContent content, boolean last) throws IOException {
        long started = System.nanoTime();
        if (sizes != null) {
            sizes.sample(content, partitions);
        }
        long bytes = output.bytes();
        long records = output.records();
        output.seal(content, last);
        metrics.incWriteTime(System.nanoTime() - started);
        metrics.incBytesWritten(output.bytes() - bytes);
        metrics.incRecordsWritten(output.records() - records);
    }

    long[] partitionBytes() {
        return output.partitionBytes();
    }

    /** Ends the task's part: what a failed task sealed is taken back. */
    MapStatus finish(boolean success) throws StoreException {
        reservation.releaseAll();
        if (!success) {
            output.abort();
            return null;
        }
        if (pool != null && pool.slot() != slot) {
            throw new StoreException("disconnected", "the node of this executor left the pool and "
                    + "joined it again while the task wrote its output");
        }
        if (pool != null && pool.awaitsCopies() && pool.copies() > 1) {
            long started = System.nanoTime();
            output.settle();
            metrics.incWriteTime(System.nanoTime() - started);
        }
        return SparkShims.mapStatus(location(), reportedBytes(), attempt, checksums.value());
    }

    private long[] reportedBytes() {
        long[] stored = output.partitionBytes();
        return sizes == null ? stored : sizes.of(stored);
    }

    /**
     * Where Spark believes the output to be: on this machine, with an executor that never existed.
     * So no executor's loss is the loss of an output; and as each output has a name of its own, the
     * loss of one is not the loss of others. The host is a real one: for a host without executors
     * Spark lets tasks wait that share a stage with tasks of a real one, in local mode without end.
     * In a pool the topology says what readers on other nodes need to know.
     */
    private BlockManagerId location() {
        BlockManagerId here = SparkEnv.get().blockManager().blockManagerId();
        Option<String> topology = pool == null
                ? Option.empty()
                : Option.apply(new OutputPlace(slot, output.runs()).text());
        return BlockManagerId.apply("plasmon-" + mapId, here.host(), here.port(), topology);
    }
}
