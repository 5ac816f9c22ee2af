package org.apache.spark.shuffle.plasmon;

import java.util.Comparator;

import org.apache.spark.Aggregator;
import org.apache.spark.util.collection.KVArraySortDataFormat;
import org.apache.spark.util.collection.SizeTracker;
import org.apache.spark.util.collection.SizeTrackingAppendOnlyMap;
import org.apache.spark.util.collection.SizeTrackingVector;
import org.apache.spark.util.collection.Sorter;
import scala.Product2;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/** The records of a reduce task in memory, in one of Spark's collections that know their size. */
interface InMemoryCollection<K, C> {
    /** Takes a record in. */
    void add(Product2<K, ?> record);

    /** The collection's size. */
    SizeTracker size();

    /** The records in this order, {@code null} for any; for the last time. */
    Iterator<Tuple2<K, C>> drain(Comparator<K> order);

    /** One combiner for each key. */
    final class CombinerMap<K, C> extends AbstractFunction2<Object, C, C>
            implements InMemoryCollection<K, C> {
        private final SizeTrackingAppendOnlyMap<K, C> combiners = new SizeTrackingAppendOnlyMap<>();
        private final Aggregator<K, Object, C> aggregator;
        /** Whether records hold combiners already, because map tasks combined them. */
        private final boolean areCombiners;
        private Object value;

        CombinerMap(Aggregator<K, Object, C> aggregator, boolean areCombiners) {
            this.aggregator = aggregator;
            this.areCombiners = areCombiners;
        }

        @Override
        public void add(Product2<K, ?> record) {
            value = record._2();
            combiners.changeValue(record._1(), this);
        }

        /** Puts the value into its key's combiner, if there is one. */
        @Override
        @SuppressWarnings("unchecked")
        public C apply(Object isThere, C combiner) {
            if (areCombiners) {
                return (Boolean) isThere
                        ? aggregator.mergeCombiners().apply(combiner, (C) value)
                        : (C) value;
            }
            return (Boolean) isThere
                    ? aggregator.mergeValue().apply(combiner, value)
                    : aggregator.createCombiner().apply(value);
        }

        @Override
        public SizeTracker size() {
            return combiners;
        }

        @Override
        public Iterator<Tuple2<K, C>> drain(Comparator<K> order) {
            return order == null
                    ? combiners.iterator()
                    : combiners.destructiveSortedIterator(order);
        }
    }

    /** Records as they come: a key, its value, the next key. */
    final class RecordVector<K, C> implements InMemoryCollection<K, C> {
        private final SizeTrackingVector<Object> records =
                new SizeTrackingVector<>(MapTaskWriter.ANY);

        @Override
        public void add(Product2<K, ?> record) {
            records.$plus$eq(record._1());
            records.$plus$eq(record._2());
        }

        @Override
        public SizeTracker size() {
            return records;
        }

        @Override
        @SuppressWarnings("unchecked")
        public Iterator<Tuple2<K, C>> drain(Comparator<K> order) {
            Object[] array = (Object[]) records.array();
            int end = records.size();
            if (order != null) {
                new Sorter<>(new KVArraySortDataFormat<K, Object>(MapTaskWriter.ANY))
                        .sort(array, 0, end / 2, order);
            }
            return new AbstractIterator<>() {
                private int at;

                @Override
                public boolean hasNext() {
                    return at < end;
                }

                @Override
                public Tuple2<K, C> next() {
                    Tuple2<K, C> record = new Tuple2<>((K) array[at], (C) array[at + 1]);
                    at += 2;
                    return record;
                }
            };
        }
    }
}
