package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;

/**
 * A connection to a store for one application, and the owner of what crosses the border to the
 * native library. All methods may be called by any thread.
 *
 * <p>Memory of the store is seen through direct buffers. A {@link Writer}'s is valid until it is
 * sealed or closed, a {@link Pin}'s until it is closed; a caller must not keep a buffer longer.
 * That is why nothing outside of this package and the reader's streams ever gets one.
 */
public final class NativeStore implements AutoCloseable {
    private final long handle;
    private final SpilledRuns spilledRuns = new SpilledRuns(this);
    private final RunIndexes indexes;
    private final RoomWaits roomWaits = new RoomWaits();
    private volatile boolean closed;

    /** What a refusal says of the application's limit, or nothing. */
    private final String limit;

    private NativeStore(long handle, RunIndexes indexes, String limit) {
        this.handle = handle;
        this.indexes = indexes;
        this.limit = limit;
    }

    /**
     * Connects to a running store.
     *
     * @param socket the path of its socket
     * @param client what the store's lists show for this process
     * @param namespace the application's own, in which its objects are named
     * @param timeoutMs for how long to wait for the store, and later for what was spilled, in
     *     milliseconds
     * @param awaits whether sealing a run waits for the store's verdict, as it must where the
     *     application has a quota; otherwise a run is on its way when it is sealed, and a refusal
     *     is reported when the next one is created
     */
    public static NativeStore connect(
            String socket, String client, String namespace, long timeoutMs, boolean awaits)
            throws StoreException {
        NativeLibrary.load();
        String[] words = {socket, client, namespace, ""};
        return new NativeStore(connect0(words, 0, timeoutMs, awaits), RunIndexes.NONE, "");
    }

    /**
     * How an application is in a pool of several nodes.
     *
     * @param namespace the application's own, of the pool: it begins with {@code @}
     * @param scratch the namespace of what this process alone needs, which ends with it
     * @param copies how many nodes keep a run
     * @param quotaBytes how many bytes the application may have on all nodes together; 0 for no
     *     limit. With one, sealing a run waits for the store's verdict
     */
    public record Pool(String namespace, String scratch, int copies, long quotaBytes) {}

    /**
     * Connects to the store of a node, for runs that all nodes of its pool find.
     *
     * @param socket the path of the store's socket
     * @param client what the store's lists show for this process
     * @param pool where in the pool
     * @param timeoutMs for how long to wait for the store, for copies, and for what was spilled, in
     *     milliseconds
     */
    public static NativeStore join(String socket, String client, Pool pool, long timeoutMs)
            throws StoreException {
        NativeLibrary.load();
        String[] words = {socket, client, pool.namespace(), pool.scratch()};
        long quota = pool.quotaBytes();
        long handle = connect0(words, pool.copies(), timeoutMs, quota > 0);
        String limit = " (what it has in the namespace " + pool.namespace() + " may have " + quota
                + " bytes on all nodes together)";
        return new NativeStore(handle, new RunIndexes(), limit);
    }

    /** What a refusal says of the application's limit, or nothing. */
    String limit() {
        return limit;
    }

    /** The socket of the store that the machine's programs use unless they name one. */
    public static String defaultSocket() throws StoreException {
        NativeLibrary.load();
        return defaultSocket0();
    }

    /** The pool that a running store belongs to, as text; empty for a store of one machine. */
    public static String poolOf(String socket, long timeoutMs) throws StoreException {
        NativeLibrary.load();
        return poolOf0(socket, timeoutMs);
    }

    /** The number of this node in its pool: the home of the runs that are made here. */
    public int slot() throws StoreException {
        return slot0(handle());
    }

    /** The nodes of the pool. */
    public List<PoolNode> nodes() throws StoreException {
        List<PoolNode> nodes = new ArrayList<>();
        for (String line : ask(NativeStore::nodes0).split("\n")) {
            String[] words = line.split(" ", 3);
            nodes.add(new PoolNode(Integer.parseInt(words[0]), words[1].equals("up"), words[2]));
        }
        return nodes;
    }

    /**
     * A node of a pool.
     *
     * @param slot its number, which no other node gets
     * @param isUp whether it takes part now
     * @param name its name
     */
    public record PoolNode(int slot, boolean isUp, String name) {}

    /** Waits until the runs 0 up to {@code runs} of an attempt have their copies. */
    public void settle(int shuffle, long map, int runs) throws StoreException {
        settle0(handle(), shuffle, map, runs);
    }

    /** Deletes what an attempt left on any node; how many objects that were. */
    public int deleteEverywhere(int shuffle, long map) throws StoreException {
        return ask(handle -> deleteEverywhere0(handle, shuffle, map));
    }

    /** What is known of runs of other nodes. */
    RunIndexes indexes() {
        return indexes;
    }

    /** The store's number for native functions. */
    long handleForCalls() throws StoreException {
        return handle();
    }

    /**
     * Makes everything of the application end with this connection, however it ends.
     *
     * @param quotaBytes how many bytes the application may have in the store, in memory and
     *     spilled; 0 for no limit
     */
    public void adopt(long quotaBytes) throws StoreException {
        adopt0(handle(), quotaBytes);
    }

    /** Starts a store with these settings of the daemon; the daemon's process. */
    public static long start(String daemon, Map<String, String> settings) throws StoreException {
        NativeLibrary.load();
        String[] words = new String[2 * settings.size()];
        int at = 0;
        for (Map.Entry<String, String> setting : settings.entrySet()) {
            words[at++] = setting.getKey();
            words[at++] = setting.getValue();
        }
        return start0(daemon, words);
    }

    /** Reserves the memory of a run. */
    public Writer create(RunId id, long bytes) throws StoreException {
        long began = System.nanoTime();
        try {
            return new Writer(create0(handle(), id.shuffleAndRun(), id.map(), bytes));
        } finally {
            roomWaits.add(System.nanoTime() - began);
        }
    }

    /** How often and how long this process waited for room in the store. */
    public RoomWaits roomWaits() {
        return roomWaits;
    }

    /** Pins a run, bringing it back into memory first if it was spilled. */
    public Pin open(RunId id) throws StoreException {
        long[] pin = new long[1];
        ByteBuffer memory =
                ask(handle -> open0(handle, id.shuffleAndRun(), id.map(), pin));
        return new Pin(pin[0], memory.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN));
    }

    /** Pins a run that is in memory; null when it is spilled, or not there at all. */
    public Pin openInMemory(RunId id) throws StoreException {
        long[] pin = new long[1];
        ByteBuffer memory = openInMemory0(handle(), id.shuffleAndRun(), id.map(), pin);
        return memory == null
                ? null
                : new Pin(pin[0], memory.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN));
    }

    /**
     * Opens a run to read pieces of it. One that was spilled stays in its file; one that is in
     * memory is read there, so this also does for a run that comes back meanwhile.
     */
    public Pieces openPieces(RunId id) throws StoreException {
        long[] bytesAndPlace = new long[2];
        long reader =
                ask(handle -> openPieces0(handle, id.shuffleAndRun(), id.map(), bytesAndPlace));
        return new Pieces(reader, bytesAndPlace[0], bytesAndPlace[1] != 0);
    }

    /** The spilled runs that tasks of this process read in their files. */
    SpilledRuns spilledRuns() {
        return spilledRuns;
    }

    /** Closes the files of a shuffle that is over, which stayed open for the next task. */
    public void closeFiles(int shuffle) {
        spilledRuns.forget(shuffle);
        indexes.forget(shuffle);
    }

    /** Deletes the runs 0 up to {@code runs} of an attempt; those that are absent are no error. */
    public void deleteAttempt(int shuffle, long map, int runs) throws StoreException {
        spilledRuns.forget(shuffle, map);
        ask(handle -> {
            deleteAttempt0(handle, shuffle, map, runs);
            return null;
        });
    }

    /** Deletes what any attempt left of a shuffle; how many objects that were. */
    public int deleteShuffle(int shuffle) throws StoreException {
        closeFiles(shuffle);
        return ask(handle -> deleteShuffle0(handle, shuffle));
    }

    /**
     * Makes what is in memory of a shuffle the first to be spilled; how many bytes that are. What
     * is read again before it is spilled stays.
     */
    public long demoteShuffle(int shuffle) throws StoreException {
        return ask(handle -> demoteShuffle0(handle, shuffle));
    }

    /**
     * Makes the copies of outputs of a shuffle the first to be spilled, on every node of the pool.
     * No node is waited for; one that does not hear of it spills in the order of use.
     */
    public void demoteOutputs(int shuffle, List<RemoteOutputs.Output> outputs)
            throws StoreException {
        long[] numbers = outputs.stream()
                .flatMapToLong(output -> LongStream.of(output.map(), output.slot(), output.runs()))
                .toArray();
        ask(handle -> {
            demoteOutputs0(handle, shuffle, numbers);
            return null;
        });
    }

    /**
     * How many bytes of memory the control groups of this process allow, and so those of a store
     * that it starts; 0 for no limit.
     */
    public static long memoryLimit() {
        NativeLibrary.load();
        return memoryLimit0();
    }

    /** Deletes what the application left; how many objects that were. */
    public int deleteApplication() throws StoreException {
        return ask(NativeStore::deleteApplication0);
    }

    /** The store's figures. */
    public Figures figures() throws StoreException {
        long[] figures = new long[8];
        ask(handle -> {
            figures0(handle, figures);
            return null;
        });
        return new Figures(figures[0], figures[1], figures[2], figures[3], figures[4], figures[5],
                figures[6], figures[7]);
    }

    /** Stops the store. */
    public void shutdown() throws StoreException {
        shutdown0(handle());
    }

    /** Ends the connection. Pins stay readable. */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            spilledRuns.close();
            disconnect0(handle);
        }
    }

    /** A call of the store that can be repeated without effect. */
    private interface StoreCall<T> {
        T ask(long handle) throws StoreException;
    }

    /** Repeats the call when another store has taken the place of the one that was called. */
    private <T> T ask(StoreCall<T> question) throws StoreException {
        try {
            return question.ask(handle());
        } catch (StoreException error) {
            if (!error.isDisconnected()) {
                throw error;
            }
        }
        return question.ask(handle());
    }

    private long handle() throws StoreException {
        if (closed) {
            throw new StoreException("disconnected", "the application's connection has ended");
        }
        return handle;
    }

    /**
     * The store's figures.
     *
     * @param capacityBytes how much it holds
     * @param usedBytes how much objects take of that
     * @param spilledBytes how much lies in files
     * @param objects how many objects are in memory
     * @param pid the daemon's process
     * @param spillWrittenBytes how much was ever written to files
     * @param restoredBytes how much was ever brought back from files into memory
     * @param spilledObjects how many objects lie in files
     */
    public record Figures(
            long capacityBytes,
            long usedBytes,
            long spilledBytes,
            long objects,
            long pid,
            long spillWrittenBytes,
            long restoredBytes,
            long spilledObjects) {}

    /** A run under construction; closed without being sealed, it never was. For one thread. */
    public static final class Writer implements AutoCloseable {
        private long writer;
        private ByteBuffer memory;

        private Writer(long writer) throws StoreException {
            this.writer = writer;
            this.memory = memory0(writer).order(ByteOrder.LITTLE_ENDIAN);
        }

        /** Where the bytes go. */
        public ByteBuffer memory() {
            return memory;
        }

        /** Makes the run visible to all clients. */
        public void seal() throws StoreException {
            seal0(given());
        }

        @Override
        public void close() throws StoreException {
            if (writer != 0) {
                abort0(given());
            }
        }

        private long given() {
            if (writer == 0) {
                throw new IllegalStateException("this run was sealed or given up already");
            }
            long given = writer;
            writer = 0;
            memory = null;
            return given;
        }
    }

    /** A run held in memory. For one thread. */
    public static final class Pin implements AutoCloseable {
        private long pin;
        private ByteBuffer memory;

        Pin(long pin, ByteBuffer memory) {
            this.pin = pin;
            this.memory = memory;
        }

        /** The run's bytes, in little-endian order; position and limit are the caller's. */
        public ByteBuffer memory() {
            return memory;
        }

        @Override
        public void close() {
            if (pin != 0) {
                long given = pin;
                pin = 0;
                memory = null;
                release0(given);
            }
        }
    }

    /**
     * A run that is read piece by piece, wherever it is: nothing is restored. What was opened
     * stays readable when the run is deleted. Any thread may read, none after it was closed.
     */
    public static final class Pieces implements AutoCloseable {
        private final long bytes;
        private final boolean inFile;
        private volatile long reader;

        private Pieces(long reader, long bytes, boolean inFile) {
            this.reader = reader;
            this.bytes = bytes;
            this.inFile = inFile;
        }

        /** Whether it is read in its file; else it is held in memory. */
        boolean isInFile() {
            return inFile;
        }

        /** How many bytes the run has. */
        public long bytes() {
            return bytes;
        }

        /**
         * Fills what remains of a direct buffer with the run's bytes from {@code offset} on; its
         * position is at its limit then. A piece that is not within the run is refused.
         */
        public void read(long offset, ByteBuffer into) throws StoreException {
            long open = reader;
            if (open == 0) {
                throw new IllegalStateException("this run was closed");
            }
            if (!into.isDirect() || into.isReadOnly()) {
                throw new IllegalArgumentException("pieces are read into direct, writable buffers");
            }
            readPiece0(open, offset, into.slice());
            into.position(into.limit());
        }

        @Override
        public void close() {
            if (reader != 0) {
                long given = reader;
                reader = 0;
                closePieces0(given);
            }
        }
    }

    private static native long connect0(
            String[] words, int copies, long timeoutMs, boolean awaits) throws StoreException;

    private static native String defaultSocket0() throws StoreException;

    private static native String poolOf0(String socket, long timeoutMs) throws StoreException;

    private static native int slot0(long handle) throws StoreException;

    private static native String nodes0(long handle) throws StoreException;

    private static native void settle0(long handle, int shuffle, long map, int runs)
            throws StoreException;

    private static native void adopt0(long handle, long quotaBytes) throws StoreException;

    private static native long start0(String daemon, String[] keysAndValues) throws StoreException;

    private static native long create0(long handle, long shuffleAndRun, long map, long bytes)
            throws StoreException;

    private static native ByteBuffer memory0(long writer) throws StoreException;

    private static native void seal0(long writer) throws StoreException;

    private static native void abort0(long writer) throws StoreException;

    private static native ByteBuffer open0(long handle, long shuffleAndRun, long map, long[] pin)
            throws StoreException;

    private static native ByteBuffer openInMemory0(
            long handle, long shuffleAndRun, long map, long[] pin) throws StoreException;

    private static native long openPieces0(
            long handle, long shuffleAndRun, long map, long[] bytesAndPlace) throws StoreException;

    private static native void readPiece0(long reader, long offset, ByteBuffer into)
            throws StoreException;

    private static native void closePieces0(long reader);

    private static native void release0(long pin);

    private static native void deleteAttempt0(long handle, int shuffle, long map, int runs)
            throws StoreException;

    private static native int deleteEverywhere0(long handle, int shuffle, long map)
            throws StoreException;

    private static native int deleteShuffle0(long handle, int shuffle) throws StoreException;

    private static native long demoteShuffle0(long handle, int shuffle) throws StoreException;

    private static native void demoteOutputs0(long handle, int shuffle, long[] outputs)
            throws StoreException;

    private static native int deleteApplication0(long handle) throws StoreException;

    private static native void figures0(long handle, long[] figures) throws StoreException;

    private static native void disconnect0(long handle);

    private static native void shutdown0(long handle) throws StoreException;

    private static native long memoryLimit0();
}
