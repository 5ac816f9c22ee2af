package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** A store that dies again and again was started forever, if nothing counted. */
class StoreWatchTest {
    private static final long MINUTE = StoreWatch.DEATHS_WITHIN_NS;

    @Test
    void theThirdDeathWithinAMinuteIsTheLast() {
        StoreWatch.DeathCounter deaths = new StoreWatch.DeathCounter();
        assertFalse(deaths.add(-5));
        assertFalse(deaths.add(10));
        assertTrue(deaths.add(MINUTE - 6));
    }

    @Test
    void deathsThatAreFurtherApartAreNoReasonToEnd() {
        StoreWatch.DeathCounter deaths = new StoreWatch.DeathCounter();
        for (long death = 0; death < 10; death++) {
            assertFalse(deaths.add(death * MINUTE / 2));
        }
    }
}
