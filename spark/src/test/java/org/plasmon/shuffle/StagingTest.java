package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicLong;

import org.junit.jupiter.api.Test;

/** After one huge record its array was kept for the rest of the task, with the memory for it. */
class StagingTest {
    @Test
    void whatOneHugeRecordTookIsGivenBack() {
        AtomicLong held = new AtomicLong();
        Staging staging = new Staging(wanted -> held.addAndGet(wanted) > 0,
                given -> held.addAndGet(-given));
        byte[] huge = new byte[Staging.KEPT_BYTES_MAX + 1];
        staging.write(huge, 0, huge.length);
        assertTrue(held.get() >= huge.length);
        staging.clear();
        assertEquals(0, held.get());
        assertEquals(0, staging.bytes().length);
        staging.write(huge, 0, Staging.KEPT_BYTES_MAX);
        staging.clear();
        assertEquals(Staging.KEPT_BYTES_MAX, staging.bytes().length);
        assertEquals(Staging.KEPT_BYTES_MAX, held.get());
    }

    @Test
    void onlyWhatWasGrantedIsGivenBack() {
        AtomicLong given = new AtomicLong();
        Staging staging = new Staging(wanted -> false, given::addAndGet);
        byte[] huge = new byte[Staging.KEPT_BYTES_MAX + 1];
        staging.write(huge, 0, huge.length);
        assertTrue(staging.isPressed());
        staging.clear();
        assertFalse(staging.isPressed());
        assertEquals(0, given.get());
    }
}
