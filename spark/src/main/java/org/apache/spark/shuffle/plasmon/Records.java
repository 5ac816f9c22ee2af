package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.nio.ByteBuffer;

import org.apache.spark.serializer.SerializerInstance;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The records of a reduce task's sections. Serialised forms that can be moved are read as one
 * stream, so that a block of a few records costs no stream of its own; others section by section.
 *
 * <p>Sections say how many records they have. A serialiser that gives another number has lost some
 * or made some up, which is a failure and never a result.
 */
final class Records extends AbstractIterator<Tuple2<Object, Object>> {
    private final Blocks blocks;
    private final SerializerInstance serializer;
    private final ShuffleReadMetricsReporter metrics;
    private final boolean asOne;
    private final Runnable atEnd;
    private Iterator<Tuple2<Object, Object>> records;
    private long read;
    private boolean ended;

    Records(
            Blocks blocks,
            SerializerInstance serializer,
            boolean canBeMoved,
            ShuffleReadMetricsReporter metrics,
            Runnable atEnd) {
        this.blocks = blocks;
        this.serializer = serializer;
        this.metrics = metrics;
        this.asOne = canBeMoved && blocks.arePlain();
        this.atEnd = atEnd;
    }

    @Override
    public boolean hasNext() {
        if (ended) {
            return false;
        }
        try {
            while (records == null || !records.hasNext()) {
                if (!advance()) {
                    return false;
                }
            }
            return true;
        } catch (IOException error) {
            throw Failures.unchecked(error);
        }
    }

    /** Goes on to the next stream of records; whether there is one. */
    private boolean advance() throws IOException {
        if (records != null) {
            checkCount();
        }
        if (asOne) {
            return records == null ? begin(blocks.concatenated()) : end();
        }
        ByteBuffer section = blocks.next();
        return section == null ? end() : begin(blocks.around(section));
    }

    private boolean begin(java.io.InputStream bytes) {
        records = serializer.deserializeStream(bytes).asKeyValueIterator();
        return true;
    }

    private boolean end() {
        ended = true;
        records = null;
        atEnd.run();
        return false;
    }

    private void checkCount() {
        if (read != blocks.records()) {
            if (asOne) {
                blame();
            }
            throw Failures.unchecked(blocks.failure(wrong(blocks.records(), read), null));
        }
    }

    private static String wrong(long expected, long found) {
        return "the sections hold " + expected + " records, but " + found + " were read";
    }

    /**
     * Finds the output whose records are not as many as it says, among several that were read as
     * one stream: reads them once more, each section by itself. Nothing but a failure pays for it.
     */
    private void blame() {
        String all = wrong(blocks.records(), read);
        try {
            Blocks again = blocks.restart();
            ByteBuffer section = again.next();
            while (section != null) {
                long found = count(again.around(section));
                if (found != again.sectionRecords()) {
                    throw Failures.unchecked(
                            again.failure(wrong(again.sectionRecords(), found), null));
                }
                section = again.next();
            }
        } catch (IOException error) {
            throw Failures.unchecked(error);
        }
        throw new IllegalStateException(all + " as one stream, although "
                + "each section by itself is right: " + serializer.getClass().getName()
                + " says that its records can be moved, which is wrong");
    }

    private long count(java.io.InputStream bytes) {
        Iterator<?> counted = serializer.deserializeStream(bytes).asKeyValueIterator();
        long count = 0;
        while (counted.hasNext()) {
            counted.next();
            count++;
        }
        return count;
    }

    @Override
    public Tuple2<Object, Object> next() {
        if (!hasNext()) {
            throw new java.util.NoSuchElementException("all records of the shuffle were read");
        }
        read++;
        metrics.incRecordsRead(1);
        return records.next();
    }
}
