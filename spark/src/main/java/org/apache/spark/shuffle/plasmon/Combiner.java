package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;

import org.apache.spark.Aggregator;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Function2;
import scala.Product2;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Combines and sorts what a reduce task reads, as its dependency asks, in one pass: records are
 * combined by key while they come, and brought into order when all are there.
 *
 * <p>When memory is short, the collection goes into the store in the order of its keys,
 * and in the end all of that is merged; without an order of their own keys go by their hash codes.
 * It is what Spark's own collections do with files.
 */
final class Combiner<K, C> {
    private static final Logger LOG = LoggerFactory.getLogger(Combiner.class);

    private final ShuffleDependency<K, Object, C> dependency;
    private final TaskContext context;
    private final SpillSpace space;
    private final Reservation reservation;
    private final CollectionLimit limit;
    /** Of keys; {@code null} where any order will do. */
    private final Comparator<K> ordering;
    /** Of combiners; {@code null} where nothing is combined. */
    private final Function2<C, C, C> combine;

    Combiner(ShuffleDependency<K, Object, C> dependency, SparkConf conf, TaskContext context,
            SpillSpace space) {
        this.dependency = dependency;
        this.context = context;
        this.space = space;
        this.reservation = new Reservation(context.taskMemoryManager());
        this.limit = new CollectionLimit(reservation, conf);
        this.ordering = dependency.keyOrdering().isEmpty() ? null : dependency.keyOrdering().get();
        this.combine = dependency.aggregator().isEmpty()
                ? null
                : dependency.aggregator().get().mergeCombiners();
    }

    private InMemoryCollection<K, C> emptyCollection() {
        if (combine == null) {
            return new InMemoryCollection.RecordVector<>();
        }
        Aggregator<K, Object, C> aggregator = dependency.aggregator().get();
        return new InMemoryCollection.CombinerMap<>(aggregator, dependency.mapSideCombine());
    }

    /** The result for all of these records. */
    Iterator<? extends Product2<K, C>> of(Iterator<? extends Product2<K, ?>> records)
            throws IOException {
        Comparator<K> total = ordering != null ? ordering : Combiner::compareHashes;
        List<Iterator<Tuple2<K, C>>> sorted = new ArrayList<>();
        InMemoryCollection<K, C> collection = emptyCollection();
        while (records.hasNext()) {
            collection.add(records.next());
            if (limit.isExceededBy(collection.size())) {
                spilled(collection.size().estimateSize(), "there is no memory for more");
                sorted.add(space.move(collection.drain(total)));
                collection = emptyCollection();
                limit.reset();
            }
        }
        context.taskMetrics().incPeakExecutionMemory(collection.size().estimateSize());
        Comparator<K> order = sorted.isEmpty() ? ordering : total;
        SpillingIterator<K, C> last = new SpillingIterator<>(
                collection.drain(order), space, reservation::releaseAll);
        reservation.spillWith(() -> moved(last));
        if (sorted.isEmpty()) {
            return last;
        }
        sorted.add(last);
        return new Merge<>(sorted, total, combine);
    }

    private boolean moved(SpillingIterator<K, C> rest) throws IOException {
        long bytes = reservation.getUsed();
        boolean moved = rest.move();
        if (moved) {
            spilled(bytes, "another part of the task needs the memory");
        }
        return moved;
    }

    private void spilled(long bytes, String why) {
        LOG.info("task {} spills records of about {} bytes into the store: {}",
                context.taskAttemptId(), bytes, why);
        context.taskMetrics().incMemoryBytesSpilled(bytes);
    }

    /** The task has ended. */
    void end() {
        reservation.releaseAll();
    }

    private static int compareHashes(Object left, Object right) {
        return Integer.compare(Objects.hashCode(left), Objects.hashCode(right));
    }
}
