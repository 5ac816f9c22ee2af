package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

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
            try (NativeStore.Pin pin = store.openInMemory(new Part(1, map, 0))) {
                if (pin == null) {
                    maps.add(map);
                }
            }
        }
        return maps;
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
            for (long map = 0; map < MAPS; map++) {
                new MapOutput(store, new Part(1, map, 0), LENGTHS.length, 10_000)
                        .seal(StoreFixture.content(map, LENGTHS), true);
            }
            List<Long> before = spilled(store);
            assertTrue(before.size() >= MAPS / 2, "so many are spilled: " + before.size());
            for (long map = 0; map < MAPS; map++) {
                RunContent content = StoreFixture.content(map, LENGTHS);
                for (int partition : new int[] {0, 1, 3}) {
                    assertArrayEquals(StoreFixture.section(content, partition),
                            read(store, map, partition));
                }
                assertTrue(MapOutput.isWhole(store, 1, map));
            }
            assertTrue(spilled(store).containsAll(before), "nothing was brought back");
            long lost = before.get(0);
            assertEquals("corrupt",
                    assertThrows(StoreException.class, () -> read(store, lost, 2)).key());
            store.deleteAttempt(1, lost, 1);
            assertTrue(assertThrows(StoreException.class, () -> read(store, lost, 0)).isLoss());
        }
    }
}
