package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicLong;

import org.junit.jupiter.api.Test;

/** After one huge record its array was kept for the rest of the task, with the memory for it. */
class RecordBufferTest {
    @Test
    void whatOneHugeRecordTookIsGivenBack() {
        AtomicLong held = new AtomicLong();
        RecordBuffer buffer = new RecordBuffer(wanted -> held.addAndGet(wanted) > 0,
                given -> held.addAndGet(-given));
        byte[] huge = new byte[RecordBuffer.KEPT_BYTES_MAX + 1];
        buffer.write(huge, 0, huge.length);
        assertTrue(held.get() >= huge.length);
        buffer.clear();
        assertEquals(0, held.get());
        assertEquals(0, buffer.bytes().length);
        buffer.write(huge, 0, RecordBuffer.KEPT_BYTES_MAX);
        buffer.clear();
        assertEquals(RecordBuffer.KEPT_BYTES_MAX, buffer.bytes().length);
        assertEquals(RecordBuffer.KEPT_BYTES_MAX, held.get());
    }

    @Test
    void onlyWhatWasGrantedIsGivenBack() {
        AtomicLong given = new AtomicLong();
        RecordBuffer buffer = new RecordBuffer(wanted -> false, given::addAndGet);
        byte[] huge = new byte[RecordBuffer.KEPT_BYTES_MAX + 1];
        buffer.write(huge, 0, huge.length);
        assertTrue(buffer.isPressed());
        buffer.clear();
        assertFalse(buffer.isPressed());
        assertEquals(0, given.get());
    }
}
