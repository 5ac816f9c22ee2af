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
 * <p>When memory is short, what is gathered so far goes into the store in the order of its keys,
 * and in the end all of that is merged; without an order of their own keys go by their hash codes.
 * It is what Spark's own collections do with files.
 */
final class Reduction<K, C> {
    private static final Logger LOG = LoggerFactory.getLogger(Reduction.class);

    private final ShuffleDependency<K, Object, C> dependency;
    private final TaskContext context;
    private final SpillSpace space;
    private final Reservation reservation;
    private final Allowance allowance;
    /** Of keys; {@code null} where any order will do. */
    private final Comparator<K> ordering;
    /** Of combiners; {@code null} where nothing is combined. */
    private final Function2<C, C, C> combine;

    Reduction(ShuffleDependency<K, Object, C> dependency, SparkConf conf, TaskContext context,
            SpillSpace space) {
        this.dependency = dependency;
        this.context = context;
        this.space = space;
        this.reservation = new Reservation(context.taskMemoryManager());
        this.allowance = new Allowance(reservation, conf);
        this.ordering = dependency.keyOrdering().isEmpty() ? null : dependency.keyOrdering().get();
        this.combine = dependency.aggregator().isEmpty()
                ? null
                : dependency.aggregator().get().mergeCombiners();
    }

    private Gathered<K, C> nothing() {
        if (combine == null) {
            return new Gathered.Plain<>();
        }
        Aggregator<K, Object, C> aggregator = dependency.aggregator().get();
        return new Gathered.Combined<>(aggregator, dependency.mapSideCombine());
    }

    /** The result for all of these records. */
    Iterator<? extends Product2<K, C>> of(Iterator<? extends Product2<K, ?>> records)
            throws IOException {
        Comparator<K> total = ordering != null ? ordering : Reduction::compareHashes;
        List<Iterator<Tuple2<K, C>>> sorted = new ArrayList<>();
        Gathered<K, C> gathered = nothing();
        while (records.hasNext()) {
            gathered.add(records.next());
            if (allowance.isExceededBy(gathered.size())) {
                spilled(gathered.size().estimateSize(), "there is no memory for more");
                sorted.add(space.move(gathered.drain(total)));
                gathered = nothing();
                allowance.reset();
            }
        }
        context.taskMetrics().incPeakExecutionMemory(gathered.size().estimateSize());
        Comparator<K> order = sorted.isEmpty() ? ordering : total;
        Drain<K, C> last = new Drain<>(gathered.drain(order), space, reservation::releaseAll);
        reservation.spillWith(() -> moved(last));
        if (sorted.isEmpty()) {
            return last;
        }
        sorted.add(last);
        return new Merge<>(sorted, total, combine);
    }

    private boolean moved(Drain<K, C> rest) throws IOException {
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
