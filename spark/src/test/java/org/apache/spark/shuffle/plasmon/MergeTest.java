package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;

import org.junit.jupiter.api.Test;
import scala.Function2;
import scala.Product2;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/** Sorted sequences as one, with and without combining. */
class MergeTest {
    private static final Comparator<Object> BY_HASH = Comparator.comparingInt(Objects::hashCode);

    private static final Function2<String, String, String> JOIN = new AbstractFunction2<>() {
        @Override
        public String apply(String left, String right) {
            return left + right;
        }
    };

    /** Words such as {@code k=v}; a key that is a dash stands for null. */
    private static Iterator<Tuple2<String, String>> records(String... words) {
        java.util.Iterator<String> each = Arrays.asList(words).iterator();
        return new AbstractIterator<>() {
            @Override
            public boolean hasNext() {
                return each.hasNext();
            }

            @Override
            public Tuple2<String, String> next() {
                String[] parts = each.next().split("=");
                return new Tuple2<>(parts[0].equals("-") ? null : parts[0], parts[1]);
            }
        };
    }

    private static List<String> merged(
            Comparator<? super String> order,
            Function2<String, String, String> combine,
            List<Iterator<Tuple2<String, String>>> sequences) {
        Merge<String, String> merge = new Merge<>(sequences, order, combine);
        List<String> found = new ArrayList<>();
        while (merge.hasNext()) {
            Product2<String, String> record = merge.next();
            found.add((record._1() == null ? "-" : record._1()) + "=" + record._2());
        }
        assertFalse(merge.hasNext());
        return found;
    }

    @Test
    void recordsOfEqualKeysKeepTheOrderOfTheirSequences() {
        List<String> found = merged(Comparator.<String>naturalOrder(), null, List.of(
                records("a=1", "b=1", "b=2", "d=1"), records(), records("a=3", "b=3", "c=3")));
        assertEquals(List.of("a=1", "a=3", "b=1", "b=2", "b=3", "c=3", "d=1"), found);
    }

    @Test
    void oneKeyIsCombinedOverAllSequences() {
        List<String> found = merged(Comparator.<String>naturalOrder(), JOIN, List.of(
                records("a=1", "b=1", "d=1"), records("b=2"), records("a=3", "b=3", "c=3")));
        assertEquals(List.of("a=13", "b=123", "c=3", "d=1"), found);
    }

    @Test
    void keysThatShareAHashCodeStayApart() {
        assertEquals("Aa".hashCode(), "BB".hashCode());
        List<String> found = merged(BY_HASH, JOIN, List.of(
                records("-=1", "BB=1", "Aa=1"), records("-=2", "Aa=2", "BB=2"), records("Aa=3")));
        assertEquals(List.of("-=12", "BB=12", "Aa=123"), found);
    }

    @Test
    void anOrderMayTakeDifferentKeysForEqual() {
        List<String> found = merged(String.CASE_INSENSITIVE_ORDER, JOIN, List.of(
                records("a=1", "B=1"), records("A=2", "b=2", "B=3")));
        assertEquals(List.of("a=1", "A=2", "B=13", "b=2"), found);
    }

    @Test
    void nothingIsNothing() {
        assertEquals(List.of(), merged(BY_HASH, JOIN, List.of(records(), records())));
    }
}
