package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Reduce tasks read from a store that is smaller than the shuffle. For each section a whole run was
 * brought back, and another one put out: 182 GB of traffic for a shuffle of 1 GB.
 */
class SpilledRunTest {
    private static final int MAPS = 24;
    private static final int[] LENGTHS = {1_000, 2_000_000, 0, 30};

    @TempDir
    private Path spillFolder;

    private static List<Long> spilled(NativeStore store) throws IOException {
        List<Long> maps = new ArrayList<>();
        for (long map = 0; map < MAPS; map++) {
            try (NativeStore.Pin pin = store.openInMemory(new RunId(1, map, 0))) {
                if (pin == null) {
                    maps.add(map);
                }
            }
        }
        return maps;
    }

    /**
     * Finished shuffles stayed in memory until the driver's collector found them, and what was
     * being shuffled was spilled: its runs were older.
     */
    @Test
    void aDemotedShuffleIsSpilledBeforeOlderRuns() throws IOException {
        try (StoreFixture fixture =
                new StoreFixture(String.valueOf(32 << 20), spillFolder.toString())) {
            NativeStore store = fixture.store;
            put(store, 1, 10);
            put(store, 2, 4);
            long bytes = 4 * 2_001_030;
            long demoted = store.demoteShuffle(2);
            assertTrue(demoted > bytes && demoted < bytes + 10_000, () -> "found " + demoted);
            put(store, 3, 4);
            for (long map = 0; map < 10; map++) {
                try (NativeStore.Pin pin = store.openInMemory(new RunId(1, map, 0))) {
                    assertTrue(pin != null, "runs in use stay");
                }
            }
            long spilled = store.figures().spilledObjects();
            assertTrue(spilled >= 1 && spilled <= 4, () -> "found " + spilled);
            assertEquals((4 - spilled) * demoted / 4, store.demoteShuffle(2), "the others stay");
        }
    }

    private static void put(NativeStore store, int shuffle, int runs) throws StoreException {
        for (long map = 0; map < runs; map++) {
            new MapOutput(store, new RunId(shuffle, map, 0), LENGTHS.length, 10_000)
                    .seal(content(map), true);
        }
    }

    private static RunContent content(long map) {
        return StoreFixture.content(map, LENGTHS);
    }

    /** More than the store holds. */
    private static void put(NativeStore store) throws StoreException {
        put(store, 1, MAPS);
    }

    /** Descriptors of spill files that this process has. */
    private static long openFiles() throws IOException {
        long found = 0;
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path entry : entries) {
                try {
                    found += Files.readSymbolicLink(entry).toString().contains(".spill") ? 1 : 0;
                } catch (NoSuchFileException closed) {
                    // Such as the one that lists them.
                }
            }
        }
        return found;
    }

    private static byte[] read(NativeStore store, long map, int partition) throws IOException {
        try (SectionReader reader = new SectionReader(store, 1, map, new int[] {partition})) {
            ByteBuffer section = reader.next();
            byte[] bytes = new byte[section.remaining()];
            section.get(bytes);
            assertEquals(bytes.length / 10, reader.records());
            assertNull(reader.next());
            return bytes;
        }
    }

    @Test
    void aSectionOfASpilledRunIsReadInItsFile() throws IOException {
        try (StoreFixture fixture = new StoreFixture("16m", spillFolder.toString())) {
            NativeStore store = fixture.store;
            put(store);
            List<Long> before = spilled(store);
            assertTrue(before.size() >= MAPS / 2, "spilled: " + before.size());
            for (long map = 0; map < MAPS; map++) {
                RunContent content = StoreFixture.content(map, LENGTHS);
                for (int partition : new int[] {0, 1, 3}) {
                    assertArrayEquals(StoreFixture.section(content, partition),
                            read(store, map, partition));
                }
                assertTrue(MapOutput.isWhole(store, 1, map));
            }
            assertTrue(spilled(store).containsAll(before), "nothing was brought back");
            assertEquals(before.size(), store.spilledRuns().size(), "their files stay open");
            long lost = before.get(0);
            assertEquals("corrupt",
                    assertThrows(StoreException.class, () -> read(store, lost, 2)).key());
            store.deleteAttempt(1, lost, 1);
            assertTrue(assertThrows(StoreException.class, () -> read(store, lost, 0)).isLoss());
        }
    }

    /**
     * The daemon was asked for a run's file once for each section: for 400 reduce tasks and 70 runs
     * 28,000 times, which took longer than reading.
     */
    @Test
    void aFileStaysOpenForTheNextTaskUntilItsShuffleIsOver() throws IOException {
        try (StoreFixture fixture = new StoreFixture("16m", spillFolder.toString())) {
            NativeStore store = fixture.store;
            put(store);
            long map = spilled(store).get(0);
            assertArrayEquals(StoreFixture.section(content(map), 0), read(store, map, 0));
            // What takes the object away takes no file away that is open.
            NativeStore other = fixture.connect("spark-test", false);
            other.deleteAttempt(1, map, 1);
            assertArrayEquals(StoreFixture.section(content(map), 3), read(store, map, 3));
            assertEquals(1, openFiles());
            store.closeFiles(2);
            assertEquals(1, openFiles());
            store.closeFiles(1);
            assertEquals(0, openFiles());
            assertTrue(assertThrows(StoreException.class, () -> read(store, map, 3)).isLoss());
            other.close();
        }
    }

    @Test
    void aFileInUseIsClosedWithItsLastReader() throws IOException {
        try (StoreFixture fixture = new StoreFixture("16m", spillFolder.toString())) {
            NativeStore store = fixture.store;
            put(store);
            long map = spilled(store).get(0);
            try (SectionReader reader = new SectionReader(store, 1, map, new int[] {0, 3})) {
                reader.next();
                store.closeFiles(1);
                assertEquals(1, openFiles());
                byte[] bytes = new byte[LENGTHS[3]];
                reader.next().get(bytes);
                assertArrayEquals(StoreFixture.section(content(map), 3), bytes);
            }
            assertEquals(0, openFiles());
            read(store, map, 0);
            assertEquals(1, openFiles());
        }
        assertEquals(0, openFiles(), "the connection's end closes them");
    }

    /** One that comes back while it is opened would be held in memory for as long as it is open. */
    @Test
    void aRunInMemoryDoesNotStayOpen() throws IOException {
        try (StoreFixture fixture = new StoreFixture("16m", spillFolder.toString())) {
            NativeStore store = fixture.store;
            new MapOutput(store, new RunId(1, 0, 0), LENGTHS.length, 10_000).seal(content(0), true);
            SpilledRuns.OpenRun use = store.spilledRuns().take(new RunId(1, 0, 0));
            assertEquals(4, use.run().header().partitions());
            assertEquals(0, store.spilledRuns().size());
            store.spilledRuns().release(use);
        }
    }

    @Test
    void soManyFilesStayOpenAndThoseOfAnotherShuffleMakeRoom() throws IOException {
        try (StoreFixture fixture = new StoreFixture("16m", spillFolder.toString())) {
            NativeStore store = fixture.store;
            SpilledRuns runs = store.spilledRuns();
            // Twice as many runs as stay open, of which the store holds a quarter.
            RunContent content = StoreFixture.content(1, 60_000, 10);
            int maps = 2 * SpilledRuns.OPEN_MAX;
            for (int shuffle = 1; shuffle <= 2; shuffle++) {
                for (long map = 0; map < maps; map++) {
                    new MapOutput(store, new RunId(shuffle, map, 0), 2, 10_000)
                            .seal(content, true);
                }
            }
            for (int shuffle = 1; shuffle <= 2; shuffle++) {
                for (long map = 0; map < maps; map++) {
                    int[] second = {1};
                    try (SectionReader reader = new SectionReader(store, shuffle, map, second)) {
                        assertEquals(10, reader.next().remaining());
                    }
                }
                assertTrue(runs.size() <= SpilledRuns.OPEN_MAX);
                assertEquals(runs.size(), openFiles());
            }
            store.closeFiles(1);
            assertTrue(runs.size() > SpilledRuns.OPEN_MAX / 2, "the later shuffle has the room");
        }
    }

    @Test
    void threadsShareFilesThatAreClosedInBetween() throws Exception {
        try (StoreFixture fixture = new StoreFixture("16m", spillFolder.toString())) {
            NativeStore store = fixture.store;
            put(store);
            List<RunContent> contents = new ArrayList<>();
            for (long map = 0; map < MAPS; map++) {
                contents.add(content(map));
            }
            List<Thread> threads = new ArrayList<>();
            AtomicReference<Throwable> failure = new AtomicReference<>();
            for (int thread = 0; thread < 4; thread++) {
                threads.add(new Thread(() -> {
                    for (long map = 0; map < MAPS; map++) {
                        for (int partition : new int[] {0, 3}) {
                            try {
                                RunContent content = contents.get((int) map);
                                assertArrayEquals(StoreFixture.section(content, partition),
                                        read(store, map, partition));
                            } catch (IOException | AssertionError error) {
                                failure.set(error);
                            }
                        }
                        store.closeFiles(1);
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            assertNull(failure.get());
            store.closeFiles(1);
            assertEquals(0, openFiles());
        }
    }
}
