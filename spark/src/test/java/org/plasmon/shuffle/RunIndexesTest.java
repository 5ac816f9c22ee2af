package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

import org.junit.jupiter.api.Test;

class RunIndexesTest {
    private static final int PARTITIONS = 6;
    private static final int SECTION = 40;

    /** A run with sections of 40 bytes, in memory. */
    private static ByteBuffer run(RunId id) {
        int start = (int) RunLayout.payloadStart(PARTITIONS);
        ByteBuffer run = ByteBuffer.allocate(start + PARTITIONS * SECTION)
                .order(ByteOrder.LITTLE_ENDIAN);
        RunLayout.putHeader(run, id, new RunLayout.Header(
                PARTITIONS, 2, 4L * PARTITIONS, (long) PARTITIONS * SECTION));
        for (int partition = 0; partition < PARTITIONS; partition++) {
            run.put(start + partition * SECTION, (byte) partition);
            RunLayout.putEntry(run, partition, partition * SECTION, SECTION, 4);
        }
        return run;
    }

    private static ByteBuffer entries(ByteBuffer run, int first, int count) {
        int from = RunLayout.entryAt(first);
        return run.slice(from, count * RunLayout.ENTRY_BYTES);
    }

    private static RunIndex index(RunId id) throws StoreException {
        ByteBuffer run = run(id);
        return RunIndex.of(id, run, 0, entries(run, 0, PARTITIONS));
    }

    @Test
    void aPartOfTheEntriesSaysWhereItsSectionsAre() throws StoreException {
        RunId id = new RunId(3, 17, 0);
        ByteBuffer run = run(id);
        RunIndex index = RunIndex.of(id, run.slice(0, RunLayout.HEADER_BYTES)
                .order(ByteOrder.LITTLE_ENDIAN), 2, entries(run, 2, 3));
        assertEquals(2, index.runs());
        assertTrue(index.covers(2, 4));
        assertFalse(index.covers(1, 4));
        assertFalse(index.covers(2, 5));
        RunLayout.Place place = index.place(3);
        assertEquals(RunLayout.payloadStart(PARTITIONS) + 3 * SECTION, place.start());
        ByteBuffer section = run.slice((int) place.start(), place.bytes());
        index.check(3, section);
        section.put(5, (byte) 1);
        assertEquals("corrupt",
                assertThrows(StoreException.class, () -> index.check(3, section)).key());
    }

    @Test
    void anotherRunsHeaderIsRefused() {
        ByteBuffer run = run(new RunId(3, 17, 0));
        RunId other = new RunId(3, 18, 0);
        assertThrows(StoreException.class,
                () -> RunIndex.of(other, run, 0, entries(run, 0, PARTITIONS)));
        run.put(20, (byte) 9);
        assertThrows(StoreException.class,
                () -> RunIndex.of(new RunId(3, 17, 0), run, 0, entries(run, 0, PARTITIONS)));
    }

    @Test
    void theLeastRecentlyUsedGoWhenThereIsNoRoom() throws StoreException {
        long one = index(new RunId(1, 1, 0)).bytes();
        RunIndexes indexes = new RunIndexes(3 * one);
        for (int map = 0; map < 3; map++) {
            indexes.add(new RunId(1, map, 0), index(new RunId(1, map, 0)));
        }
        assertNotNull(indexes.find(new RunId(1, 0, 0)));
        indexes.add(new RunId(2, 9, 0), index(new RunId(2, 9, 0)));
        assertNull(indexes.find(new RunId(1, 1, 0)), "the one that was not looked for");
        assertNotNull(indexes.find(new RunId(1, 0, 0)));
        indexes.forget(1);
        assertNull(indexes.find(new RunId(1, 2, 0)));
        assertNotNull(indexes.find(new RunId(2, 9, 0)));
        assertTrue(indexes.canKeep(one));
        assertFalse(indexes.canKeep(2 * one));
        assertFalse(RunIndexes.NONE.canKeep(1));
    }
}
