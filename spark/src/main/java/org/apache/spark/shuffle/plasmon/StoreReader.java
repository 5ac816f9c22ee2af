package org.apache.spark.shuffle.plasmon;

import java.io.IOException;

import org.apache.spark.InterruptibleIterator;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.storage.ShuffleBlockId;
import org.apache.spark.util.TaskCompletionListener;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.Spills;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Product2;
import scala.collection.Iterator;

/**
 * What a reduce task reads: the records of its sections, combined and sorted as the shuffle's
 * dependency asks.
 */
final class StoreReader<K, C> implements ShuffleReader<K, C> {
    private static final Logger LOG = LoggerFactory.getLogger(StoreReader.class);

    private final NativeStore store;
    private final SparkConf conf;
    private final ShuffleDependency<K, Object, C> dependency;
    private final Blocks blocks;
    private final TaskContext context;
    private final ShuffleReadMetricsReporter metrics;

    StoreReader(
            NativeStore store,
            SparkConf conf,
            ShuffleDependency<K, Object, C> dependency,
            Blocks blocks,
            TaskContext context,
            ShuffleReadMetricsReporter metrics) {
        this.store = store;
        this.conf = conf;
        this.dependency = dependency;
        this.blocks = blocks;
        this.context = context;
        this.metrics = metrics;
    }

    /** The types are what Spark's contract says: values where nothing was combined yet. */
    @Override
    @SuppressWarnings("unchecked")
    public Iterator<Product2<K, C>> read() {
        Serializer serializer = dependency.serializer();
        Records records = new Records(
                blocks,
                serializer.newInstance(),
                serializer.supportsRelocationOfSerializedObjects(),
                metrics,
                () -> context.taskMetrics().mergeShuffleReadMetrics());
        atEnd(blocks::close);
        Iterator<Product2<K, C>> result =
                (Iterator<Product2<K, C>>) (Iterator<?>) interruptible(records);
        if (dependency.aggregator().isEmpty() && dependency.keyOrdering().isEmpty()) {
            return result;
        }
        return interruptible(reduced(result));
    }

    @SuppressWarnings("unchecked")
    private Iterator<Product2<K, C>> reduced(Iterator<Product2<K, C>> records) {
        int shuffle = dependency.shuffleId();
        long task = context.taskAttemptId();
        Spills spills = new Spills(store, shuffle, task, Settings.timeoutMs(conf));
        SpillSpace space = new SpillSpace(spills, dependency.serializer(), Streams.of(conf),
                new ShuffleBlockId(shuffle, task, 0));
        Combiner<K, C> combiner = new Combiner<>(dependency, conf, context, space);
        atEnd(() -> {
            combiner.end();
            close(space);
        });
        try {
            return (Iterator<Product2<K, C>>) combiner.of(records);
        } catch (IOException error) {
            throw Failures.unchecked(error);
        }
    }

    private void atEnd(Runnable action) {
        TaskCompletionListener listener = ended -> action.run();
        context.addTaskCompletionListener(listener);
    }

    /** The task's result stands; remaining objects are deleted with the shuffle. */
    private static void close(SpillSpace space) {
        try {
            space.close();
        } catch (StoreException error) {
            LOG.warn("what a task spilled was not removed", error);
        }
    }

    private <T> Iterator<T> interruptible(Iterator<T> records) {
        return new InterruptibleIterator<>(context, records);
    }
}
