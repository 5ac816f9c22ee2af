package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.Random;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What a reduce task puts aside, as it finds it again. */
class SpillsTest {
    private static final long TIMEOUT_MS = 100;
    private static final int SHUFFLE = 3;

    private StoreFixture fixture;
    private NativeStore store;

    @BeforeEach
    void start() throws IOException {
        fixture = new StoreFixture("16m");
        store = fixture.store;
    }

    @AfterEach
    void stop() throws IOException {
        fixture.close();
    }

    private static RecordBuffer bufferOf(byte[] bytes) {
        RecordBuffer buffer = new RecordBuffer(wanted -> true, wanted -> { });
        buffer.write(bytes, 0, bytes.length);
        return buffer;
    }

    private static byte[] random(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return bytes;
    }

    @Test
    void piecesComeBackInTheirOrderAlsoWhenSpillsTakeTurns() throws IOException {
        try (Spills spills = new Spills(store, SHUFFLE, 7, TIMEOUT_MS)) {
            Spills.Spill one = spills.begin();
            Spills.Spill other = spills.begin();
            one.add(bufferOf(random(10)), 1);
            other.add(bufferOf(random(20)), 1);
            one.add(bufferOf(random(300_000)), 5);
            assertEquals(300_030, spills.bytes());
            assertArrayEquals(random(10), one.next());
            assertArrayEquals(random(300_000), one.next());
            assertNull(one.next());
            assertArrayEquals(random(20), other.next());
            assertEquals(3, store.figures().objects());
        }
        assertEquals(0, store.figures().objects());
    }

    @Test
    void oneTaskMayReadAShuffleTwice() throws IOException {
        try (Spills first = new Spills(store, SHUFFLE, 7, TIMEOUT_MS);
                Spills second = new Spills(store, SHUFFLE, 7, TIMEOUT_MS)) {
            Spills.Spill one = first.begin();
            one.add(bufferOf(random(10)), 1);
            Spills.Spill other = second.begin();
            other.add(bufferOf(random(20)), 1);
            assertArrayEquals(random(10), one.next());
            assertArrayEquals(random(20), other.next());
        }
    }

    @Test
    void whatADeadTaskLeftGoesWithTheShuffle() throws IOException {
        new Spills(store, SHUFFLE, 7, TIMEOUT_MS).begin().add(bufferOf(random(10)), 1);
        assertEquals(1, store.deleteShuffle(SHUFFLE));
        assertEquals(0, store.figures().objects());
    }

    @Test
    void afterTheTaskHasEndedNothingIsWrittenOrRead() throws IOException {
        Spills spills = new Spills(store, SHUFFLE, 7, TIMEOUT_MS);
        Spills.Spill spill = spills.begin();
        spill.add(bufferOf(random(10)), 1);
        spills.close();
        assertEquals("deleted", assertThrows(StoreException.class, spill::next).key());
        StoreException ended = assertThrows(
                StoreException.class, () -> spill.add(bufferOf(random(10)), 1));
        assertEquals("cancelled", ended.key());
        assertEquals(0, store.figures().objects());
    }
}
