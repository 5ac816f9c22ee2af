package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.InputStream;

import org.apache.spark.serializer.SerializationStream;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.serializer.SerializerInstance;
import org.apache.spark.storage.BlockId;
import org.plasmon.shuffle.RecordBuffer;
import org.plasmon.shuffle.Spills;
import org.plasmon.shuffle.StoreException;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/** Where a reduce task puts records while its memory is short: serialised, in the store. */
final class SpillSpace implements AutoCloseable {
    /**
     * How much is serialised before it goes into the store. Small, because memory is short: while
     * spills are merged, one piece of each is on the heap.
     */
    private static final int PIECE_BYTES = 256 << 10;

    /** How often the serialiser is made to show what it wrote, in records. */
    private static final int FLUSH_EVERY = 64;

    private final Spills spills;
    private final Serializer serializer;
    private final Streams streams;
    private final BlockId block;

    SpillSpace(Spills spills, Serializer serializer, Streams streams, BlockId block) {
        this.spills = spills;
        this.serializer = serializer;
        this.streams = streams;
        this.block = block;
    }

    /** Spills all of these records, and returns an iterator that reads them back. */
    <K, C> Iterator<Tuple2<K, C>> move(Iterator<Tuple2<K, C>> records) throws IOException {
        Spills.Spill spill = spills.begin();
        RecordBuffer buffer = new RecordBuffer(bytes -> true, bytes -> { });
        SerializerInstance instance = serializer.newInstance();
        while (records.hasNext()) {
            spill.add(buffer, stage(records, instance, buffer));
            buffer.clear();
        }
        return new SpillReader<>(spill);
    }

    /** Serialises one piece; how many records it has. */
    private <K, C> int stage(Iterator<Tuple2<K, C>> records, SerializerInstance instance,
            RecordBuffer buffer) throws IOException {
        int count = 0;
        try (SerializationStream stream =
                instance.serializeStream(streams.around(block, buffer))) {
            while (records.hasNext() && buffer.size() < PIECE_BYTES) {
                Tuple2<K, C> record = records.next();
                stream.writeKey(record._1(), MapTaskWriter.ANY);
                stream.writeValue(record._2(), MapTaskWriter.ANY);
                if (++count % FLUSH_EVERY == 0) {
                    stream.flush();
                }
            }
        }
        return count;
    }

    /** Forgets what was not brought back. */
    @Override
    public void close() throws StoreException {
        spills.close();
    }

    /** Spilled records, read back piece by piece. */
    private final class SpillReader<K, C> extends AbstractIterator<Tuple2<K, C>> {
        private final Spills.Spill spill;
        private final SerializerInstance instance = serializer.newInstance();
        private Iterator<Tuple2<Object, Object>> piece;

        SpillReader(Spills.Spill spill) {
            this.spill = spill;
        }

        @Override
        public boolean hasNext() {
            try {
                while (piece == null || !piece.hasNext()) {
                    byte[] bytes = spill.next();
                    if (bytes == null) {
                        return false;
                    }
                    InputStream stream =
                            streams.around(block, new ArrayStream(bytes, bytes.length));
                    piece = instance.deserializeStream(stream).asKeyValueIterator();
                }
                return true;
            } catch (IOException error) {
                throw Failures.unchecked(error);
            }
        }

        /** Of the types that {@link #move} was given. */
        @Override
        @SuppressWarnings("unchecked")
        public Tuple2<K, C> next() {
            if (!hasNext()) {
                throw new java.util.NoSuchElementException("all spilled records were read");
            }
            return (Tuple2<K, C>) (Tuple2<?, ?>) piece.next();
        }
    }
}
