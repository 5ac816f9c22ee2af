package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A run that is not in memory, of which one task wants few sections: header, entries and sections
 * are read in its file one by one, and the run stays there. To bring back megabytes for each
 * section of some kilobytes, and to put them out again for the next, is what makes a store that is
 * smaller than the shuffle slow.
 */
final class SpilledRun implements AutoCloseable {
    /** Of a longer section the whole run is brought back: memory of the JVM is scarcer. */
    static final int SECTION_BYTES_MAX = 4 << 20;

    private final NativeStore.Pieces pieces;
    private final Part part;
    private final RunLayout.Header header;
    private ByteBuffer memory = ByteBuffer.allocateDirect(0);

    /** Takes the pieces over, and reads and checks the header. */
    SpilledRun(NativeStore.Pieces pieces, Part part) throws StoreException {
        this.pieces = pieces;
        this.part = part;
        try {
            long bytes = pieces.bytes();
            int length = (int) Math.min(bytes, RunLayout.HEADER_BYTES);
            this.header = RunLayout.header(read(0, length), part, bytes);
        } catch (StoreException | RuntimeException error) {
            pieces.close();
            throw error;
        }
    }

    RunLayout.Header header() {
        return header;
    }

    /**
     * A partition's section, after its checksum was found right; {@code null} if it is too long to
     * be read like this. The bytes stay until the next call.
     */
    RunLayout.Section section(int partition) throws StoreException {
        RunLayout.checkPartition(header, part, partition);
        ByteBuffer entry = read(RunLayout.entryAt(partition), RunLayout.ENTRY_BYTES);
        RunLayout.Place place = RunLayout.place(entry, header, part, partition);
        if (place.bytes() > SECTION_BYTES_MAX) {
            return null;
        }
        byte[] words = new byte[RunLayout.ENTRY_BYTES];
        entry.get(0, words);
        ByteBuffer section = read(place.start(), place.bytes());
        RunLayout.checkSection(ByteBuffer.wrap(words).order(ByteOrder.LITTLE_ENDIAN), section,
                part, partition);
        return new RunLayout.Section(section.asReadOnlyBuffer(), place.records());
    }

    private ByteBuffer read(long offset, int length) throws StoreException {
        if (memory.capacity() < length) {
            memory = ByteBuffer.allocateDirect(Math.max(length, 2 * memory.capacity()));
        }
        ByteBuffer piece = memory.slice(0, length).order(ByteOrder.LITTLE_ENDIAN);
        if (length > 0) {
            pieces.read(offset, piece.duplicate());
        }
        return piece;
    }

    @Override
    public void close() {
        pieces.close();
    }
}
