package org.plasmon.shuffle;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;

/**
 * Where what lies in a run: docs/formats/spark-shuffle.md is the table of its bytes.
 *
 * <pre>
 * header (64 bytes) | one entry of 16 bytes for each partition | sections, partition by partition
 * </pre>
 *
 * <p>The header has its own checksum. The checksum in an entry covers the entry's other words
 * and the section, so a reader that wants one partition touches one entry and one section and
 * still knows that neither was damaged.
 */
final class RunLayout {
    /** "PLSHUFL1", read as a little-endian number. */
    static final long MAGIC = 0x314c46554853_4c50L;

    static final int HEADER_BYTES = 64;
    static final int ENTRY_BYTES = 16;

    /** What one {@code ByteBuffer} covers, with room for rounding. */
    static final long RUN_BYTES_MAX = Integer.MAX_VALUE - 64L;

    private static final int AT_PARTITIONS = 8;
    private static final int AT_RUNS = 12;
    private static final int AT_RECORDS = 16;
    private static final int AT_PAYLOAD_BYTES = 24;
    private static final int AT_MAP = 32;
    private static final int AT_SHUFFLE = 40;
    private static final int AT_RUN = 44;
    private static final int AT_RESERVED = 48;
    private static final int AT_HEADER_CRC = 60;

    private static final int AT_OFFSET = 0;
    private static final int AT_BYTES = 4;
    private static final int AT_ENTRY_RECORDS = 8;
    private static final int AT_CRC = 12;

    private RunLayout() {}

    /** Where the sections begin. */
    static long payloadStart(int partitions) {
        return HEADER_BYTES + (long) ENTRY_BYTES * partitions;
    }

    /** The contents of a header, besides the id of its run. */
    record Header(int partitions, int runs, long records, long payloadBytes) {}

    /** Writes the header; {@code runs} is 0 in every run but run 0. */
    static void putHeader(ByteBuffer memory, RunId id, Header header) {
        memory.putLong(0, MAGIC);
        memory.putInt(AT_PARTITIONS, header.partitions());
        memory.putInt(AT_RUNS, header.runs());
        memory.putLong(AT_RECORDS, header.records());
        memory.putLong(AT_PAYLOAD_BYTES, header.payloadBytes());
        memory.putLong(AT_MAP, id.map());
        memory.putInt(AT_SHUFFLE, id.shuffle());
        memory.putInt(AT_RUN, id.run());
        memory.putLong(AT_RESERVED, 0);
        memory.putInt(AT_RESERVED + 8, 0);
        memory.putInt(AT_HEADER_CRC, headerChecksum(memory));
    }

    /** The number of runs in the header of run 0, of which only the header is at hand. */
    static int runs(ByteBuffer header, RunId id) throws StoreException {
        if (header.getLong(0) != MAGIC || header.getInt(AT_HEADER_CRC) != headerChecksum(header)) {
            throw corrupt(id, "its header is damaged");
        }
        return header.getInt(AT_RUNS);
    }

    /** Reads the header and checks that it is the one of this run and fits the memory. */
    static Header header(ByteBuffer memory, RunId id) throws StoreException {
        return header(memory, id, memory.capacity());
    }

    /** As {@link #header(ByteBuffer, RunId)}, of a run of which not all may be at hand. */
    static Header header(ByteBuffer memory, RunId id, long bytes) throws StoreException {
        Header header = headerOfPart(memory, id);
        long wanted = payloadStart(header.partitions()) + header.payloadBytes();
        if (wanted != bytes) {
            throw corrupt(id, wanted + " bytes were expected, " + bytes + " found");
        }
        return header;
    }

    /** The same, of a run whose length is not known. */
    static Header headerOfPart(ByteBuffer memory, RunId id) throws StoreException {
        if (memory.capacity() < HEADER_BYTES || memory.getLong(0) != MAGIC) {
            throw corrupt(id, "it does not start with the header of a run");
        }
        if (memory.getInt(AT_HEADER_CRC) != headerChecksum(memory)) {
            throw corrupt(id, "the checksum of its header is wrong");
        }
        RunId found = new RunId(
                memory.getInt(AT_SHUFFLE), memory.getLong(AT_MAP), memory.getInt(AT_RUN));
        if (!found.equals(id)) {
            throw corrupt(id, "it says that it is " + found);
        }
        Header header = new Header(
                memory.getInt(AT_PARTITIONS),
                memory.getInt(AT_RUNS),
                memory.getLong(AT_RECORDS),
                memory.getLong(AT_PAYLOAD_BYTES));
        if (header.partitions() < 0 || header.payloadBytes() < 0) {
            throw corrupt(id, "its header has numbers below 0");
        }
        return header;
    }

    /**
     * Writes the entry of a partition whose section is in place.
     *
     * @param at where in the payload the section begins
     */
    static void putEntry(ByteBuffer memory, int partition, int at, int bytes, int records) {
        int entry = entryAt(partition);
        memory.putInt(entry + AT_OFFSET, at);
        memory.putInt(entry + AT_BYTES, bytes);
        memory.putInt(entry + AT_ENTRY_RECORDS, records);
        int start = (int) payloadStart(partitions(memory)) + at;
        memory.putInt(entry + AT_CRC,
                entryChecksum(memory.slice(entry, ENTRY_BYTES), memory.slice(start, bytes)));
    }

    /** The number of partitions in the header. */
    static int partitions(ByteBuffer memory) {
        return memory.getInt(AT_PARTITIONS);
    }

    /** A partition's section, after its checksum was found right. */
    static Section section(ByteBuffer memory, RunId id, int partition) throws StoreException {
        int partitions = partitions(memory);
        long payload = memory.capacity() - payloadStart(partitions);
        Header header = new Header(partitions, 0, 0, payload);
        checkPartition(header, id, partition);
        ByteBuffer entry = memory.slice(entryAt(partition), ENTRY_BYTES)
                .order(ByteOrder.LITTLE_ENDIAN);
        Place place = place(entry, header, id, partition);
        ByteBuffer bytes = memory.slice((int) place.start(), place.bytes());
        checkSection(entry, bytes, id, partition);
        return new Section(bytes, place.records());
    }

    /** Where in its run a section lies, and how many records it has. */
    record Place(long start, int bytes, int records) {}

    static void checkPartition(Header header, RunId id, int partition) throws StoreException {
        if (partition < 0 || partition >= header.partitions()) {
            throw corrupt(id, "it has " + header.partitions() + " partitions, not "
                    + (partition + 1));
        }
    }

    /** A partition's entry, after it was checked to lie within the run. */
    static Place place(ByteBuffer entry, Header header, RunId id, int partition)
            throws StoreException {
        int at = entry.getInt(AT_OFFSET);
        int bytes = entry.getInt(AT_BYTES);
        int records = entry.getInt(AT_ENTRY_RECORDS);
        boolean within = at >= 0 && bytes >= 0 && (long) at + bytes <= header.payloadBytes();
        if (!within || records < 0) {
            throw corrupt(id, "partition " + partition + " lies outside of it");
        }
        return new Place(payloadStart(header.partitions()) + at, bytes, records);
    }

    /** Checks an entry and its section against the entry's checksum. */
    static void checkSection(ByteBuffer entry, ByteBuffer section, RunId id, int partition)
            throws StoreException {
        if (entryChecksum(entry, section) != entry.getInt(AT_CRC)) {
            throw corrupt(id, "the checksum of partition " + partition + " is wrong");
        }
    }

    /** The bytes of one partition in one run, and how many records they are. */
    record Section(ByteBuffer bytes, int records) {}

    static int entryAt(int partition) {
        return HEADER_BYTES + ENTRY_BYTES * partition;
    }

    private static int headerChecksum(ByteBuffer memory) {
        CRC32C checksum = new CRC32C();
        checksum.update(memory.slice(0, AT_HEADER_CRC));
        return (int) checksum.getValue();
    }

    private static int entryChecksum(ByteBuffer entry, ByteBuffer section) {
        CRC32C checksum = new CRC32C();
        checksum.update(entry.slice(0, AT_CRC));
        checksum.update(section.duplicate());
        return (int) checksum.getValue();
    }

    private static StoreException corrupt(RunId id, String why) {
        return new StoreException("corrupt", "reading " + id + ": " + why);
    }
}
