package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What a map task puts into a store, as reduce tasks find it. */
class MapOutputTest {
    private static final String CAPACITY_BYTES = "16m";
    private static final long TIMEOUT_MS = 100;

    private StoreFixture fixture;
    private NativeStore store;

    @BeforeEach
    void start() throws IOException {
        fixture = new StoreFixture(CAPACITY_BYTES);
        store = fixture.store;
    }

    @AfterEach
    void stop() throws IOException {
        fixture.close();
    }

    private MapOutput output(int shuffle, long map, int partitions) {
        return new MapOutput(store, new RunId(shuffle, map, 0), partitions, TIMEOUT_MS);
    }

    private byte[] read(int shuffle, long map, int... partitions) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        try (SectionReader reader = new SectionReader(store, shuffle, map, partitions)) {
            for (ByteBuffer section = reader.next(); section != null; section = reader.next()) {
                byte[] bytes = new byte[section.remaining()];
                section.get(bytes);
                assertEquals(bytes.length / 10, reader.records());
                all.write(bytes);
            }
        }
        return all.toByteArray();
    }

    @Test
    void partitionsComeBackFromEveryRunInTheOrderOfRuns() throws IOException {
        RunContent first = StoreFixture.content(1, 30, 0, 500, 10);
        RunContent second = StoreFixture.content(2, 0, 20, 70_000, 40);
        MapOutput output = output(1, 7, 4);
        output.seal(first, false);
        output.seal(second, true);
        assertEquals(2, output.runs());
        assertArrayEquals(new long[] {30, 20, 70_500, 50}, output.partitionBytes());
        assertEquals(70_600 / 10, output.records());
        // Run 0 is sealed last and so holds the second content.
        byte[] expected = ByteBuffer.allocate(70_500)
                .put(StoreFixture.section(second, 2)).put(StoreFixture.section(first, 2)).array();
        assertArrayEquals(expected, read(1, 7, 2));
        assertArrayEquals(StoreFixture.section(first, 0), read(1, 7, 0));
        assertEquals(70_600, read(1, 7, 0, 1, 2, 3).length);
    }

    @Test
    void anEmptyOutputMakesNoObject() throws IOException {
        MapOutput output = output(1, 7, 4);
        output.seal(StoreFixture.content(1, 0, 0, 0, 0), true);
        assertEquals(0, store.figures().objects());
        assertArrayEquals(new long[4], output.partitionBytes());
    }

    @Test
    void whatIsNotCommittedIsAbsentAndAbortedIsGone() throws IOException {
        MapOutput output = output(1, 7, 2);
        output.seal(StoreFixture.content(1, 30, 0), false);
        output.seal(StoreFixture.content(2, 30, 0), false);
        StoreException absent = assertThrows(StoreException.class, () -> read(1, 7, 0));
        assertEquals("absent", absent.key());
        assertTrue(absent.isLoss());
        assertEquals(2, store.figures().objects());
        output.abort();
        assertEquals(0, store.figures().objects());
    }

    /** What the driver asks of every output of a shuffle once one of them is missing. */
    @Test
    void anOutputIsWholeWhileItHasEveryRun() throws IOException {
        for (long map : new long[] {7, 8}) {
            MapOutput output = output(1, map, 1);
            output.seal(StoreFixture.content(1, 500), false);
            assertFalse(MapOutput.isWhole(store, 1, map), "it is not committed");
            output.seal(StoreFixture.content(2, 500), true);
            assertTrue(MapOutput.isWhole(store, 1, map));
        }
        store.deleteAttempt(1, 7, 1);
        assertFalse(MapOutput.isWhole(store, 1, 7), "run 0 is gone");
        assertTrue(MapOutput.isWhole(store, 1, 8));
        store.deleteShuffle(1);
        assertFalse(MapOutput.isWhole(store, 1, 8));
    }

    /** An attempt that lost to its twin kept its output until the shuffle ended. */
    @Test
    void whatAnAttemptLeftIsDeletedWhetherCommittedOrNot() throws IOException {
        for (long map : new long[] {7, 8, 9}) {
            MapOutput output = output(1, map, 1);
            output.seal(StoreFixture.content(1, 500), false);
            output.seal(StoreFixture.content(2, 500), false);
            if (map != 8) {
                output.seal(StoreFixture.content(3, 500), true);
            }
        }
        assertEquals(3, MapOutput.delete(store, 1, 7));
        assertEquals(2, MapOutput.delete(store, 1, 8));
        assertEquals(0, MapOutput.delete(store, 1, 8));
        assertEquals(3, store.figures().objects());
        assertTrue(MapOutput.isWhole(store, 1, 9));
    }

    @Test
    void attemptsAndShufflesDoNotMeet() throws IOException {
        for (int shuffle : new int[] {1, 11}) {
            for (long map : new long[] {7, 8, 1L << 40}) {
                output(shuffle, map, 1).seal(StoreFixture.content(shuffle * 100 + map, 50), true);
            }
        }
        assertEquals(3, store.deleteShuffle(1));
        assertEquals("deleted", assertThrows(StoreException.class, () -> read(1, 7, 0)).key());
        byte[] expected = StoreFixture.section(StoreFixture.content(1100 + (1L << 40), 50), 0);
        assertArrayEquals(expected, read(11, 1L << 40, 0));
        assertEquals(0, store.deleteShuffle(1));
        assertEquals(3, store.deleteApplication());
    }

    @Test
    void aPartitionThatLostItsBytesIsNeverReadAsEmpty() throws IOException {
        output(1, 7, 2).seal(StoreFixture.content(1, 30, 0), true);
        StoreException corrupt = assertThrows(StoreException.class, () -> read(1, 7, 1));
        assertEquals("corrupt", corrupt.key());
    }

    @Test
    void aFullStoreIsAnErrorThatSaysSo() throws IOException {
        MapOutput output = output(1, 7, 1);
        StoreException full = assertThrows(StoreException.class, () -> {
            for (int run = 0; run < 40; run++) {
                output.seal(StoreFixture.content(run, 1 << 20), false);
            }
        });
        assertTrue(full.isFull(), full.getMessage());
        assertFalse(full.isLoss());
        assertTrue(full.getMessage().contains("the store is full"), full.getMessage());
        output.abort();
        output(1, 8, 1).seal(StoreFixture.content(1, 1 << 20), true);
    }

    @Test
    void aWriterThatIsClosedWithoutSealLeavesNothing() throws IOException {
        RunId id = new RunId(1, 7, 0);
        NativeStore.Writer writer = store.create(id, 1000);
        writer.memory().putInt(0, 5);
        writer.close();
        assertNull(writer.memory());
        assertThrows(IllegalStateException.class, writer::seal);
        assertThrows(StoreException.class, () -> store.open(id));
    }

    @Test
    void aConnectionThatEndedSaysSo() throws IOException {
        try (StoreFixture other = new StoreFixture(CAPACITY_BYTES)) {
            NativeStore second = other.connect("spark-x", false);
            second.close();
            StoreException ended = assertThrows(StoreException.class, second::figures);
            assertEquals("disconnected", ended.key());
        }
    }

    @Test
    void noListenerIsAnErrorThatNamesTheSocket() throws IOException {
        String nowhere = Files.createTempDirectory("plasmon-none-").resolve("x.sock").toString();
        StoreException error = assertThrows(StoreException.class,
                () -> NativeStore.connect(nowhere, "test", "spark-x", 0, false));
        assertEquals("disconnected", error.key());
        assertTrue(error.getMessage().contains(nowhere), error.getMessage());
    }

    @Test
    void whatADriverAdoptedEndsWithItsConnectionAndNothingElse() throws IOException {
        NativeStore driver = fixture.connect("spark-app", false);
        driver.adopt(0);
        try (NativeStore executor = fixture.connect("spark-app", false)) {
            new MapOutput(executor, new RunId(1, 7, 0), 1, TIMEOUT_MS)
                    .seal(StoreFixture.content(1, 5_000), true);
            new MapOutput(executor, new RunId(1, 8, 0), 1, TIMEOUT_MS)
                    .seal(StoreFixture.content(1, 5_000), false);
            output(1, 7, 1).seal(StoreFixture.content(2, 5_000), true);
            assertEquals(3, store.figures().objects());
            driver.close();
            long deadline = System.nanoTime() + 10_000_000_000L;
            while (store.figures().objects() > 1 && System.nanoTime() < deadline) {
                Thread.onSpinWait();
            }
            assertEquals(1, store.figures().objects());
            StoreException gone = assertThrows(StoreException.class, () ->
                    new SectionReader(executor, 1, 7, new int[] {0}).next());
            assertTrue(gone.isLoss(), gone.getMessage());
        }
        assertEquals(5_000, read(1, 7, 0).length);
    }

    @Test
    void aQuotaIsAnErrorThatNamesTheSettingAndHarmsNoOtherClient() throws IOException {
        try (NativeStore driver = fixture.connect("spark-app", true)) {
            driver.adopt(100_000);
            MapOutput output = new MapOutput(driver, new RunId(1, 7, 0), 1, TIMEOUT_MS);
            output.seal(StoreFixture.content(1, 60_000), false);
            StoreException refused = assertThrows(StoreException.class,
                    () -> output.seal(StoreFixture.content(2, 60_000), true));
            assertTrue(refused.isBeyondQuota());
            assertFalse(refused.isLoss());
            assertTrue(refused.getMessage().contains("spark.plasmon.quota.bytes"),
                    refused.getMessage());
            output.abort();
            assertEquals(0, store.figures().objects());
            output(1, 7, 1).seal(StoreFixture.content(3, 200_000), true);
        }
        assertEquals(200_000, read(1, 7, 0).length);
    }
}
