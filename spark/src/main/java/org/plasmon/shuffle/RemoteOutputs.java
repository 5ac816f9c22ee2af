package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Goes through the outputs that a reduce task reads from other nodes of a pool, in their order.
 *
 * <pre>
 * indexes of runs that are not known ─► one gather ─► where the sections lie
 * sections                           ─► one gather ─► records
 * </pre>
 *
 * <p>The partitions of a task lie side by side in each run, so a run gives one part. Parts come
 * while earlier ones are read. Every section is checked against the mapper's own checksum.
 */
public final class RemoteOutputs implements AutoCloseable {
    /** Of so many runs, about, the indexes are read at once. */
    private static final int RUNS_AT_ONCE = 4096;

    private final NativeStore store;
    private final int shuffle;
    private final int partitions;
    private final List<Output> outputs;
    private final PatientGather.Patience patience;
    private final boolean wholeTables;
    /** The first output whose indexes are not read yet. */
    private int unread;
    private int opened;
    private final List<List<RunIndex>> indexes = new ArrayList<>();
    private StoreException failure;
    private PatientGather sections;

    /**
     * The partitions from {@code first} to {@code last} of one output.
     *
     * @param map the attempt that wrote it
     * @param slot the number of the node that it was written on
     * @param runs how many runs it has
     * @param first the first partition that is wanted
     * @param last the last one
     */
    public record Output(long map, int slot, int runs, int first, int last) {}

    /**
     * What the outputs have in common.
     *
     * @param shuffle Spark's number of the shuffle
     * @param partitions how many partitions the shuffle has
     * @param copies how many nodes keep each run
     * @param bytesAhead how many bytes are on their way or wait to be read, at most
     * @param timeoutMs for how long to try to get a part, in milliseconds
     */
    public record Source(
            int shuffle, int partitions, int copies, long bytesAhead, long timeoutMs) {
        private PatientGather.Patience patience() {
            return new PatientGather.Patience(bytesAhead, copies, timeoutMs);
        }
    }

    /** Asks for nothing yet. */
    public RemoteOutputs(NativeStore store, Source source, List<Output> outputs) {
        this.store = store;
        this.shuffle = source.shuffle();
        this.partitions = source.partitions();
        this.outputs = outputs;
        this.patience = source.patience();
        long runs = outputs.stream().mapToLong(Output::runs).sum();
        this.wholeTables =
                store.indexes().canKeep(runs * RunLayout.payloadStart(partitions));
    }

    /**
     * Which outputs are there, each with all its runs. Of every run the header is read; what no
     * node gives within the time is not there.
     */
    public static boolean[] areThere(NativeStore store, Source source, List<Output> outputs)
            throws StoreException {
        List<Gather.Part> headers = new ArrayList<>();
        for (Output output : outputs) {
            for (int run = 0; run < output.runs(); run++) {
                RunId id = new RunId(source.shuffle(), output.map(), run);
                headers.add(new Gather.Part(id, output.slot(), 0, RunLayout.HEADER_BYTES));
            }
        }
        boolean[] found = new boolean[outputs.size()];
        try (PatientGather gather = new PatientGather(store, headers, source.patience())) {
            for (int output = 0; output < found.length; output++) {
                found[output] = true;
                for (int run = 0; run < outputs.get(output).runs(); run++) {
                    RunId id = new RunId(source.shuffle(), outputs.get(output).map(), run);
                    found[output] &= isThere(id, gather);
                }
            }
        }
        return found;
    }

    private static boolean isThere(RunId id, PatientGather gather) throws StoreException {
        try (NativeStore.Pin header = gather.next()) {
            RunLayout.headerOfPart(header.memory(), id);
            return true;
        } catch (StoreException error) {
            if (error.isLoss() || error.isUnreachable()) {
                return false;
            }
            throw error;
        }
    }

    /** The sections of the next output. Those of the one before are closed. */
    public Sections open() throws StoreException {
        if (opened == unread && failure == null) {
            readAhead();
        }
        if (opened == unread) {
            throw failure;
        }
        Output output = outputs.get(opened);
        List<RunIndex> runs = indexes.get(opened);
        opened++;
        return new OutputSections(output, runs);
    }

    /** Reads indexes of the next outputs, and asks for their sections. */
    private void readAhead() throws StoreException {
        if (sections != null) {
            sections.close();
        }
        int from = unread;
        int to = from;
        for (int runs = 0; to < outputs.size() && (to == from || runs < RUNS_AT_ONCE); to++) {
            runs += outputs.get(to).runs();
        }
        List<Gather.Part> wanted = new ArrayList<>();
        for (Output output : outputs.subList(from, to)) {
            for (int run = 0; run < output.runs(); run++) {
                wantIndex(output, run, wanted);
            }
        }
        List<Gather.Part> parts = new ArrayList<>();
        try (PatientGather gather = new PatientGather(store, wanted, patience)) {
            for (Output output : outputs.subList(from, to)) {
                List<RunIndex> runs = new ArrayList<>();
                for (int run = 0; run < output.runs(); run++) {
                    RunIndex index = index(output, run, gather);
                    RunId id = new RunId(shuffle, output.map(), run);
                    Range range = range(output, index);
                    if (range.start() < range.end()) {
                        parts.add(new Gather.Part(id, output.slot(), range.start(), range.end()));
                    }
                    runs.add(index);
                }
                indexes.add(runs);
                unread++;
            }
        } catch (StoreException error) {
            // It is told when that output is opened.
            failure = error;
        }
        sections = new PatientGather(store, parts, patience);
    }

    /** Asks for the index of a run unless it is known. */
    private void wantIndex(Output output, int run, List<Gather.Part> wanted) {
        RunId id = new RunId(shuffle, output.map(), run);
        if (known(output, id) != null) {
            return;
        }
        if (wholeTables) {
            wanted.add(new Gather.Part(
                    id, output.slot(), 0, RunLayout.payloadStart(partitions)));
            return;
        }
        wanted.add(new Gather.Part(id, output.slot(), 0, RunLayout.HEADER_BYTES));
        wanted.add(new Gather.Part(id, output.slot(), RunLayout.entryAt(output.first()),
                RunLayout.entryAt(output.last() + 1)));
    }

    private RunIndex known(Output output, RunId id) {
        RunIndex known = store.indexes().find(id);
        return known != null && known.covers(output.first(), output.last()) ? known : null;
    }

    /** The index of a run; what {@link #wantIndex} asked for is taken. */
    private RunIndex index(Output output, int run, PatientGather gather) throws StoreException {
        RunId id = new RunId(shuffle, output.map(), run);
        RunIndex known = known(output, id);
        if (known != null) {
            return known;
        }
        RunIndex index;
        if (wholeTables) {
            try (NativeStore.Pin pin = gather.next()) {
                ByteBuffer table = pin.memory().duplicate().position(RunLayout.HEADER_BYTES);
                index = RunIndex.of(id, pin.memory(), 0, table);
            }
            store.indexes().add(id, index);
        } else {
            try (NativeStore.Pin head = gather.next(); NativeStore.Pin table = gather.next()) {
                index = RunIndex.of(id, head.memory(), output.first(), table.memory());
            }
        }
        if (run == 0 && index.runs() != output.runs()) {
            throw new StoreException("corrupt", "reading " + id + ": it says that there are "
                    + index.runs() + " runs, Spark lists " + output.runs());
        }
        return index;
    }

    private record Range(long start, long end) {}

    /** Where the wanted sections of a run lie. */
    private static Range range(Output output, RunIndex index) throws StoreException {
        long start = index.place(output.first()).start();
        RunLayout.Place last = index.place(output.last());
        return new Range(start, last.start() + last.bytes());
    }

    @Override
    public void close() {
        if (sections != null) {
            sections.close();
            sections = null;
        }
    }

    private final class OutputSections implements Sections {
        private final Output output;
        private final List<RunIndex> runs;
        private int run = -1;
        private NativeStore.Pin pin;
        private long start;
        private int next;
        private int records;
        private long bytesSeen;
        private long waitedNs;

        private OutputSections(Output output, List<RunIndex> runs) {
            this.output = output;
            this.runs = runs;
        }

        @Override
        public ByteBuffer next() throws StoreException {
            while (true) {
                while (pin != null && next <= output.last()) {
                    RunLayout.Place place = runs.get(run).place(next);
                    next++;
                    if (place.bytes() > 0) {
                        return section(next - 1, place);
                    }
                }
                close();
                if (++run >= runs.size()) {
                    return end();
                }
                Range range = range(output, runs.get(run));
                if (range.start() < range.end()) {
                    pin = awaited();
                    start = range.start();
                    next = output.first();
                }
            }
        }

        private NativeStore.Pin awaited() throws StoreException {
            long began = System.nanoTime();
            try {
                return sections.next();
            } finally {
                waitedNs += System.nanoTime() - began;
            }
        }

        @Override
        public long takeWaitedNs() {
            long waited = waitedNs;
            waitedNs = 0;
            return waited;
        }

        private ByteBuffer section(int partition, RunLayout.Place place) throws StoreException {
            long at = place.start() - start;
            if (at < 0 || at + place.bytes() > pin.memory().capacity()) {
                throw new StoreException("corrupt", "reading " + new RunId(shuffle, output.map(),
                        run) + ": its sections are not in the order of their partitions");
            }
            ByteBuffer section = pin.memory().slice((int) at, place.bytes());
            runs.get(run).check(partition, section);
            records = place.records();
            bytesSeen += place.bytes();
            return section;
        }

        /** Spark lists only partitions that have bytes; finding none means that they were lost. */
        private ByteBuffer end() throws StoreException {
            if (bytesSeen == 0) {
                throw new StoreException("corrupt", "reading " + new RunId(
                        shuffle, output.map(), 0)
                        + ": Spark lists bytes in a partition that is empty");
            }
            return null;
        }

        @Override
        public int partition() {
            return Math.max(output.first(), next - 1);
        }

        @Override
        public int records() {
            return records;
        }

        @Override
        public void close() {
            if (pin != null) {
                pin.close();
                pin = null;
            }
        }
    }
}
