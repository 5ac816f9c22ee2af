package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

import org.junit.jupiter.api.Test;

/** The bytes of a run, and that damage to any of them is found. */
class RunLayoutTest {
    private static final RunId RUN = new RunId(3, 17, 0);

    /** A run with the sections "spark", "" and "plasmon". */
    private static ByteBuffer run() {
        byte[] payload = "sparkplasmon".getBytes(StandardCharsets.US_ASCII);
        int start = (int) RunLayout.payloadStart(3);
        ByteBuffer memory =
                ByteBuffer.allocate(start + payload.length).order(ByteOrder.LITTLE_ENDIAN);
        RunLayout.putHeader(memory, RUN, new RunLayout.Header(3, 1, 4, payload.length));
        memory.put(start, payload);
        RunLayout.putEntry(memory, 0, 0, 5, 1);
        RunLayout.putEntry(memory, 1, 5, 0, 0);
        RunLayout.putEntry(memory, 2, 5, 7, 3);
        return memory;
    }

    private static void readAll(ByteBuffer memory) throws StoreException {
        RunLayout.header(memory, RUN);
        for (int partition = 0; partition < 3; partition++) {
            RunLayout.section(memory, RUN, partition);
        }
    }

    @Test
    void sectionsAndCountsComeBack() throws StoreException {
        ByteBuffer memory = run();
        assertEquals(new RunLayout.Header(3, 1, 4, 12), RunLayout.header(memory, RUN));
        RunLayout.Section section = RunLayout.section(memory, RUN, 2);
        assertEquals(3, section.records());
        assertEquals("plasmon", StandardCharsets.US_ASCII.decode(section.bytes()).toString());
        assertEquals(0, RunLayout.section(memory, RUN, 1).bytes().capacity());
    }

    @Test
    void theFirstBytesSayWhatItIs() {
        byte[] magic = new byte[8];
        run().get(0, magic);
        assertEquals("PLSHUFL1", new String(magic, StandardCharsets.US_ASCII));
    }

    @Test
    void everyDamagedByteIsFound() {
        for (int at = 0; at < run().capacity(); at++) {
            for (int bit = 0; bit < 8; bit++) {
                ByteBuffer damaged = run();
                damaged.put(at, (byte) (damaged.get(at) ^ (1 << bit)));
                StoreException error = assertThrows(StoreException.class,
                        () -> readAll(damaged), "byte " + at + ", bit " + bit);
                assertEquals("corrupt", error.key());
            }
        }
    }

    @Test
    void anotherPartIsRefused() {
        for (RunId other : new RunId[] {
            new RunId(4, 17, 0), new RunId(3, 18, 0), new RunId(3, 17, 1)
        }) {
            assertThrows(StoreException.class, () -> RunLayout.header(run(), other));
        }
    }

    @Test
    void aPartitionOutsideIsRefused() {
        assertThrows(StoreException.class, () -> RunLayout.section(run(), RUN, 3));
        assertThrows(StoreException.class, () -> RunLayout.section(run(), RUN, -1));
    }

    @Test
    void truncatedRunsAreRefused() {
        for (int length = 0; length < run().capacity(); length++) {
            ByteBuffer cut = run().slice(0, length).order(ByteOrder.LITTLE_ENDIAN);
            assertThrows(StoreException.class, () -> readAll(cut));
        }
    }
}
