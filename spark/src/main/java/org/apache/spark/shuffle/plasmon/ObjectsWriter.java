package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.OutputStream;

import org.apache.spark.Aggregator;
import org.apache.spark.serializer.SerializationStream;
import org.apache.spark.serializer.SerializerInstance;
import org.apache.spark.util.collection.PartitionedAppendOnlyMap;
import org.apache.spark.util.collection.PartitionedPairBuffer;
import org.apache.spark.util.collection.SizeTracker;
import org.apache.spark.util.collection.WritablePartitionedPairCollection;
import org.plasmon.shuffle.BufferedSections;
import org.plasmon.shuffle.RecordBuffer;
import scala.Function2;
import scala.Option;
import scala.Product2;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Writes records that are combined first, or whose serialised form cannot be moved, such as those
 * of Java's serialisation, where there are many partitions: they are kept as objects until memory
 * is short or all are there, then serialised partition by partition.
 *
 * <p>When memory is short, the records combined so far become a run and combining restarts. Nothing
 * is merged again here: a reduce task merges what comes from several map tasks anyway, and runs
 * are no different.
 */
final class ObjectsWriter<K, V> extends MapTaskWriter<K, V> {
    private final SerializerInstance serializer;
    private final RecordBuffer buffer;
    private final BufferedSections sections;
    private final CollectionLimit limit;
    /** Exactly one of them, by whether records are combined. */
    private PartitionedAppendOnlyMap<K, Object> combined;
    private PartitionedPairBuffer<K, Object> collected;

    ObjectsWriter(MapTask<K, V> task) {
        super(task);
        this.serializer = task.dependency.serializer().newInstance();
        this.buffer = new RecordBuffer(task.reservation::reserve, task.reservation::release);
        this.sections = new BufferedSections(buffer, task.partitions);
        this.limit = new CollectionLimit(task.reservation, task.conf);
        start();
    }

    private void start() {
        if (task.dependency.mapSideCombine()) {
            combined = new PartitionedAppendOnlyMap<>();
        } else {
            collected = new PartitionedPairBuffer<>(64);
        }
    }

    private WritablePartitionedPairCollection<K, Object> collection() {
        return combined != null ? combined : collected;
    }

    @Override
    public void write(Iterator<Product2<K, V>> records) throws IOException {
        ValueCombiner<K, V> combining =
                combined == null ? null : new ValueCombiner<>(task.dependency.aggregator().get());
        while (records.hasNext()) {
            Product2<K, V> record = records.next();
            K key = record._1();
            int partition = task.partitionOf(key);
            task.checksums.update(partition, key, record._2());
            if (combining == null) {
                collected.insert(partition, key, record._2());
            } else {
                combining.value = record._2();
                combined.changeValue(new Tuple2<>(partition, key), combining);
            }
            if (limit.isExceededBy((SizeTracker) collection())) {
                empty(false);
            }
        }
        empty(true);
    }

    /** Puts one value after the other into the combiner of its key. */
    private static final class ValueCombiner<K, V> extends
            scala.runtime.AbstractFunction2<Object, Object, Object> {
        private final Aggregator<K, V, Object> aggregator;
        private V value;

        ValueCombiner(Aggregator<K, V, Object> aggregator) {
            this.aggregator = aggregator;
        }

        @Override
        public Object apply(Object isThere, Object combiner) {
            return (Boolean) isThere
                    ? aggregator.mergeValue().apply(combiner, value)
                    : aggregator.createCombiner().apply(value);
        }
    }

    /** Serialises what was collected; at the end it also commits the output. */
    private void empty(boolean last) throws IOException {
        Iterator<Tuple2<Tuple2<Object, K>, Object>> sorted =
                collection().partitionedDestructiveSortedIterator(Option.empty());
        boolean more = sorted.hasNext();
        Tuple2<Tuple2<Object, K>, Object> record = more ? sorted.next() : null;
        while (record != null) {
            record = writeSection(record, sorted);
            if (record != null && (buffer.size() >= task.runBytes || buffer.isPressed())) {
                seal(false);
            }
        }
        if (last || !sections.isEmpty()) {
            seal(last);
        }
        limit.reset();
        start();
    }

    /** Writes one partition's records, and returns the first one of the next partition. */
    private Tuple2<Tuple2<Object, K>, Object> writeSection(
            Tuple2<Tuple2<Object, K>, Object> first,
            Iterator<Tuple2<Tuple2<Object, K>, Object>> sorted) throws IOException {
        int partition = (Integer) first._1()._1();
        int start = buffer.size();
        int records = 0;
        Tuple2<Tuple2<Object, K>, Object> record = first;
        OutputStream bytes = task.streams.around(task.block(partition), buffer);
        try (SerializationStream stream = serializer.serializeStream(bytes)) {
            while (record != null && (Integer) record._1()._1() == partition) {
                stream.writeKey(record._1()._2(), ANY);
                stream.writeValue(record._2(), ANY);
                records++;
                record = sorted.hasNext() ? sorted.next() : null;
            }
        }
        sections.add(partition, start, records);
        return record;
    }

    private void seal(boolean last) throws IOException {
        task.seal(sections, last);
        sections.clear();
    }
}
