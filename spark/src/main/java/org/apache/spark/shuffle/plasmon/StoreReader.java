package org.apache.spark.shuffle.plasmon;

import org.apache.spark.Aggregator;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.TaskContext;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.util.TaskCompletionListener;
import scala.Product2;
import scala.collection.Iterator;

/**
 * What a reduce task reads: the records of its sections, combined and sorted as the shuffle's
 * dependency asks. Combining and sorting are Spark's own.
 */
final class StoreReader<K, C> implements ShuffleReader<K, C> {
    private final ShuffleDependency<K, Object, C> dependency;
    private final Blocks blocks;
    private final TaskContext context;
    private final ShuffleReadMetricsReporter metrics;

    StoreReader(
            ShuffleDependency<K, Object, C> dependency,
            Blocks blocks,
            TaskContext context,
            ShuffleReadMetricsReporter metrics) {
        this.dependency = dependency;
        this.blocks = blocks;
        this.context = context;
        this.metrics = metrics;
    }

    @Override
    public Iterator<Product2<K, C>> read() {
        Serializer serializer = dependency.serializer();
        Records records = new Records(
                blocks,
                serializer.newInstance(),
                serializer.supportsRelocationOfSerializedObjects(),
                metrics,
                () -> context.taskMetrics().mergeShuffleReadMetrics());
        TaskCompletionListener release = ended -> blocks.close();
        context.addTaskCompletionListener(release);
        Iterator<Product2<K, C>> result = sorted(combined(interruptible(records)));
        return result instanceof InterruptibleIterator ? result : interruptible(result);
    }

    private <T> Iterator<T> interruptible(Iterator<T> records) {
        return new InterruptibleIterator<>(context, records);
    }

    /** The types are what Spark's contract says: values where nothing was combined yet. */
    @SuppressWarnings("unchecked")
    private Iterator<Product2<K, C>> combined(Iterator<?> records) {
        if (dependency.aggregator().isEmpty()) {
            return (Iterator<Product2<K, C>>) records;
        }
        Aggregator<K, Object, C> aggregator = dependency.aggregator().get();
        Iterator<?> combined = dependency.mapSideCombine()
                ? aggregator.combineCombinersByKey((Iterator<Product2<K, C>>) records, context)
                : aggregator.combineValuesByKey((Iterator<Product2<K, Object>>) records, context);
        return (Iterator<Product2<K, C>>) combined;
    }

    private Iterator<Product2<K, C>> sorted(Iterator<Product2<K, C>> records) {
        if (dependency.keyOrdering().isEmpty()) {
            return records;
        }
        return Lines.<K, C>sorter(context, dependency.keyOrdering().get(), dependency.serializer())
                .insertAllAndUpdateMetrics(records);
    }
}
