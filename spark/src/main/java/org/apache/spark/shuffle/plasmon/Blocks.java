package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

import org.apache.spark.shuffle.FetchFailedException;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.storage.ShuffleBlockId;
import org.plasmon.shuffle.Sections;
import org.plasmon.shuffle.StoreException;

/**
 * All sections that a reduce task reads, one after the other: where one that is lost or damaged
 * becomes the failure that makes Spark run exactly that map task again.
 *
 * <p>Usually one thread uses it. But where Python or another program consumes the records, Spark
 * reads them in its own thread, which may be in the middle of a read when the task ends and
 * the memory is given back. So everything that touches the store's memory holds the lock that
 * {@link #close} takes, and fails once that was called: the memory may be gone from the address
 * space by then.
 */
final class Blocks implements AutoCloseable {
    private static final long NS_PER_MS = 1_000_000;

    /** How much of a section is copied at once. */
    private static final int BUFFER_BYTES = 32 << 10;

    private final int shuffle;
    private final MapBlocks[] outputs;
    private final OutputReaders readers;
    private final ShuffleReadMetricsReporter metrics;
    private final Streams streams;
    private final Consumer<MapBlocks> onLoss;
    private int output = -1;
    private Sections reader;
    /** How many sections of the output were given. */
    private int given;
    private long records;
    private long waitedNs;
    private boolean closed;

    /** @param onLoss called with an output that is gone, before that becomes a failure */
    Blocks(
            OutputReaders readers,
            int shuffle,
            MapBlocks[] outputs,
            ShuffleReadMetricsReporter metrics,
            Streams streams,
            Consumer<MapBlocks> onLoss) {
        this.readers = readers;
        this.shuffle = shuffle;
        this.outputs = outputs;
        this.metrics = metrics;
        this.streams = streams;
        this.onLoss = onLoss;
    }

    /** Whether sections can be read as one stream, given that their records can. */
    boolean arePlain() {
        return streams.arePlain();
    }

    /** How many records all sections so far have. */
    long records() {
        return records;
    }

    /** How many records the last section has. */
    int sectionRecords() {
        return reader.records();
    }

    /** Goes back to the first section. */
    synchronized Blocks restart() {
        release();
        output = -1;
        records = 0;
        return this;
    }

    /** The next section's bytes, which stay until the next call; {@code null} at the end. */
    synchronized ByteBuffer next() throws IOException {
        checkOpen();
        return find();
    }

    /** Waiting is until a section's bytes are there; what is done with them is none. */
    private void waited(long ns) {
        waitedNs += ns;
        if (waitedNs >= NS_PER_MS) {
            metrics.incFetchWaitTime(waitedNs / NS_PER_MS);
            waitedNs %= NS_PER_MS;
        }
    }

    private ByteBuffer find() throws IOException {
        while (true) {
            if (reader != null) {
                ByteBuffer section = nextOfOutput();
                if (section != null) {
                    records += reader.records();
                    count(section.capacity());
                    return section;
                }
            }
            if (++output >= outputs.length) {
                release();
                return null;
            }
            open();
        }
    }

    private void open() throws IOException {
        given = 0;
        long began = System.nanoTime();
        try {
            reader = readers.open(output);
        } catch (StoreException error) {
            throw lost(error);
        } finally {
            waited(System.nanoTime() - began);
        }
        // A block is what one map task wrote for one partition, in however many runs.
        int blocks = outputs[output].partitions().length;
        if (readers.isRemote(output)) {
            metrics.incRemoteBlocksFetched(blocks);
        } else {
            metrics.incLocalBlocksFetched(blocks);
        }
    }

    private void count(int bytes) {
        if (readers.isRemote(output)) {
            metrics.incRemoteBytesRead(bytes);
        } else {
            metrics.incLocalBytesRead(bytes);
        }
    }

    private ByteBuffer nextOfOutput() throws IOException {
        try {
            ByteBuffer section = next(reader);
            given++;
            return section;
        } catch (StoreException error) {
            throw lost(error);
        } finally {
            waited(reader.takeWaitedNs());
        }
    }

    /** A store that was killed has lost what is on other nodes of the pool. */
    private ByteBuffer next(Sections sections) throws StoreException {
        try {
            return sections.next();
        } catch (StoreException error) {
            Sections elsewhere = error.isLoss() ? readers.openElsewhere(output) : null;
            if (elsewhere == null) {
                throw error;
            }
            sections.close();
            reader = elsewhere;
        }
        for (int skipped = 0; skipped < given; skipped++) {
            reader.next();
        }
        return reader.next();
    }

    /** What an error of the store means to Spark. */
    private IOException lost(StoreException error) {
        if (!error.isLoss() && !(error.isUnreachable() && readers.isRemote(output))) {
            return error;
        }
        // Outputs are seldom lost one by one: the driver looks at all before Spark does.
        onLoss.accept(outputs[output]);
        throw Failures.unchecked(failure(error.getMessage(), error));
    }

    /** The failure of the section that was read last. */
    FetchFailedException failure(String why, Throwable cause) {
        MapBlocks blocks = outputs[Math.min(output, outputs.length - 1)];
        return new FetchFailedException(blocks.location(), shuffle, blocks.mapId(),
                blocks.mapIndex(), partition(), why, cause);
    }

    private int partition() {
        return reader == null ? -1 : reader.partition();
    }

    /** A stream over one section, through whatever is put around it. */
    InputStream around(ByteBuffer section) {
        ShuffleBlockId block =
                new ShuffleBlockId(shuffle, outputs[output].mapId(), reader.partition());
        return streams.around(block, new SectionStream(section));
    }

    /** The task has ended: later reads fail and say so. */
    @Override
    public synchronized void close() {
        closed = true;
        release();
    }

    private void release() {
        if (reader != null) {
            reader.close();
            reader = null;
        }
        readers.close();
    }

    private void checkOpen() throws IOException {
        if (closed) {
            throw new IOException("the task that read this shuffle has ended");
        }
    }

    private synchronized int take(ByteBuffer section, byte[] target, int offset, int length)
            throws IOException {
        checkOpen();
        if (length == 0) {
            return 0;
        }
        int taken = Math.min(length, section.remaining());
        if (taken == 0) {
            return -1;
        }
        section.get(target, offset, taken);
        return taken;
    }

    /** The bytes of one section. */
    private final class SectionStream extends ArrayStream {
        private final ByteBuffer section;

        SectionStream(ByteBuffer section) {
            super(new byte[Math.min(BUFFER_BYTES, section.capacity())], 0);
            this.section = section;
        }

        @Override
        int fill(byte[] array) throws IOException {
            return take(section, array, 0, array.length);
        }

        @Override
        public int available() {
            return super.available() + section.remaining();
        }
    }

    /** The bytes of all sections, one after the other. */
    InputStream concatenated() {
        return new InputStream() {
            private ByteBuffer section;

            private boolean isAtEnd() throws IOException {
                while (section == null || !section.hasRemaining()) {
                    section = Blocks.this.next();
                    if (section == null) {
                        return true;
                    }
                }
                return false;
            }

            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }

            @Override
            public int read(byte[] target, int offset, int length) throws IOException {
                return isAtEnd() ? -1 : take(section, target, offset, length);
            }
        };
    }
}
