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
            throw Failures.unchecked(blocks.failure("the sections hold " + blocks.records()
                    + " records, but " + read + " were read", null));
        }
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
