package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A run that is not in memory, of which tasks want few sections each: header, entries and sections
 * are read in its file one by one, and the run stays there. To bring back megabytes for each
 * section of some kilobytes, and to put them out again for the next, is what makes a store that is
 * smaller than the shuffle slow.
 *
 * <p>All methods may be called by any thread; {@link SpilledRuns} says which tasks share one, and
 * ends it.
 */
final class SpilledRun {
    /** Of a longer section the whole run is brought back: memory of the JVM is scarcer. */
    static final int SECTION_BYTES_MAX = 4 << 20;

    private final NativeStore.Pieces pieces;
    private final RunId id;
    private final RunLayout.Header header;

    /** Takes the pieces over, and reads and checks the header. */
    SpilledRun(NativeStore.Pieces pieces, RunId id) throws StoreException {
        this.pieces = pieces;
        this.id = id;
        try {
            long bytes = pieces.bytes();
            int length = (int) Math.min(bytes, RunLayout.HEADER_BYTES);
            this.header = RunLayout.header(read(0, length, new Memory()), id, bytes);
        } catch (StoreException | RuntimeException error) {
            pieces.close();
            throw error;
        }
    }

    RunId id() {
        return id;
    }

    RunLayout.Header header() {
        return header;
    }

    /** Whether it is read in its file; else it came back meanwhile, and is held in memory. */
    boolean isInFile() {
        return pieces.isInFile();
    }

    /**
     * A partition's section, after its checksum was found right; {@code null} if it is too long to
     * be read like this. The bytes stay until the memory is used again.
     */
    RunLayout.Section section(int partition, Memory memory) throws StoreException {
        RunLayout.checkPartition(header, id, partition);
        ByteBuffer entry = read(RunLayout.entryAt(partition), RunLayout.ENTRY_BYTES, memory);
        RunLayout.Place place = RunLayout.place(entry, header, id, partition);
        if (place.bytes() > SECTION_BYTES_MAX) {
            return null;
        }
        byte[] words = new byte[RunLayout.ENTRY_BYTES];
        entry.get(0, words);
        ByteBuffer section = read(place.start(), place.bytes(), memory);
        RunLayout.checkSection(ByteBuffer.wrap(words).order(ByteOrder.LITTLE_ENDIAN), section,
                id, partition);
        return new RunLayout.Section(section.asReadOnlyBuffer(), place.records());
    }

    private ByteBuffer read(long offset, int length, Memory memory) throws StoreException {
        ByteBuffer piece = memory.piece(length);
        if (length > 0) {
            pieces.read(offset, piece.duplicate());
        }
        return piece;
    }

    void close() {
        pieces.close();
    }

    /** Where one task's sections are read into, one after the other. It grows as they need. */
    static final class Memory {
        private static final ByteBuffer NONE = ByteBuffer.allocateDirect(0);

        private ByteBuffer memory = NONE;

        private ByteBuffer piece(int length) {
            if (memory.capacity() < length) {
                memory = ByteBuffer.allocateDirect(Math.max(length, 2 * memory.capacity()));
            }
            return memory.slice(0, length).order(ByteOrder.LITTLE_ENDIAN);
        }
    }
}
