package org.apache.spark.shuffle.plasmon;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.Queue;

import scala.Function2;
import scala.Product2;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Several sorted sequences of records as one. Where records are combined, those of one key become
 * one; the order may take different keys for equal, as one by hash codes does.
 */
final class Merge<K, C> extends AbstractIterator<Product2<K, C>> {
    private final Comparator<? super K> order;
    /** Null where records are not combined. */
    private final Function2<C, C, C> combine;
    private final PriorityQueue<Sequence<K, C>> sequences;
    /** Combined records whose keys the order takes for equal. */
    private final Queue<Tuple2<K, C>> group = new ArrayDeque<>();

    Merge(List<Iterator<Tuple2<K, C>>> sorted, Comparator<? super K> order,
            Function2<C, C, C> combine) {
        this.order = order;
        this.combine = combine;
        // Of equal keys those of the first sequence come first.
        this.sequences = new PriorityQueue<>(Math.max(1, sorted.size()),
                Comparator.<Sequence<K, C>, K>comparing(Sequence::key, order::compare)
                        .thenComparingInt(sequence -> sequence.number));
        for (Iterator<Tuple2<K, C>> records : sorted) {
            goOn(new Sequence<>(sequences.size(), records));
        }
    }

    /** One of the sequences, at its first record that was not taken yet. */
    private static final class Sequence<K, C> {
        final int number;
        final Iterator<Tuple2<K, C>> rest;
        Tuple2<K, C> head;

        Sequence(int number, Iterator<Tuple2<K, C>> rest) {
            this.number = number;
            this.rest = rest;
        }

        K key() {
            return head._1();
        }

        boolean advance() {
            head = rest.hasNext() ? rest.next() : null;
            return head != null;
        }
    }

    private void goOn(Sequence<K, C> sequence) {
        if (sequence.advance()) {
            sequences.add(sequence);
        }
    }

    @Override
    public boolean hasNext() {
        return !group.isEmpty() || !sequences.isEmpty();
    }

    @Override
    public Product2<K, C> next() {
        if (combine == null) {
            return take();
        }
        if (group.isEmpty()) {
            gather();
        }
        return group.remove();
    }

    private Tuple2<K, C> take() {
        Sequence<K, C> first = sequences.remove();
        Tuple2<K, C> record = first.head;
        goOn(first);
        return record;
    }

    /** Takes all records whose keys equal the first one's in the order, and combines them. */
    private void gather() {
        List<K> keys = new ArrayList<>();
        List<C> combined = new ArrayList<>();
        do {
            Tuple2<K, C> record = take();
            int at = find(keys, record._1());
            if (at < 0) {
                keys.add(record._1());
                combined.add(record._2());
            } else {
                combined.set(at, combine.apply(combined.get(at), record._2()));
            }
        } while (!sequences.isEmpty()
                && order.compare(keys.get(0), sequences.peek().key()) == 0);
        for (int at = 0; at < keys.size(); at++) {
            group.add(new Tuple2<>(keys.get(at), combined.get(at)));
        }
    }

    /** There are few: keys that share a hash code, or that an order cannot tell apart. */
    private static int find(List<?> keys, Object key) {
        for (int at = 0; at < keys.size(); at++) {
            if (Objects.equals(keys.get(at), key)) {
                return at;
            }
        }
        return -1;
    }
}
