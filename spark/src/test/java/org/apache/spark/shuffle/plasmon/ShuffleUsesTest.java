package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;

import org.apache.spark.shuffle.plasmon.FinishedShuffles.CollectionPace;
import org.junit.jupiter.api.Test;
import org.plasmon.shuffle.NativeStore.Figures;

class ShuffleUsesTest {
    private static final long SECOND = 1_000_000_000;

    private final ShuffleUses uses = new ShuffleUses();

    @Test
    void aShuffleIsFinishedWithItsLastJob() {
        uses.jobStarted(1, null, List.of(10, 11));
        uses.jobStarted(2, null, List.of(11));
        assertEquals(List.of(10), uses.jobEnded(1));
        assertTrue(uses.isUsed(11));
        assertEquals(List.of(11), uses.jobEnded(2));
        // An RDD may be computed from once more.
        uses.jobStarted(3, null, List.of(11));
        assertTrue(uses.isUsed(11));
        assertEquals(List.of(11), uses.jobEnded(3));
        assertEquals(List.of(), uses.jobEnded(3));
    }

    /** Adaptive execution runs a job for each stage; the next one reads what it wrote. */
    @Test
    void aShuffleOfAQueryIsInUseUntilTheQueryEnds() {
        uses.jobStarted(1, 7L, List.of(10));
        assertEquals(List.of(), uses.jobEnded(1));
        uses.jobStarted(2, 7L, List.of(10, 11));
        assertEquals(List.of(), uses.jobEnded(2));
        assertEquals(2, uses.queryEnded(7).size());
        // The events may come the other way round.
        uses.jobStarted(3, 8L, List.of(12));
        assertEquals(List.of(), uses.queryEnded(8));
        assertEquals(List.of(12), uses.jobEnded(3));
    }

    @Test
    void whatIsDeletedIsNotFinishedOnceMore() {
        uses.jobStarted(1, 7L, List.of(10, 11));
        uses.forget(10);
        uses.forget(99);
        assertEquals(List.of(), uses.jobEnded(1));
        assertEquals(List.of(11), uses.queryEnded(7));
        assertFalse(uses.isUsed(10));
    }

    private static Figures figures(long used) {
        return new Figures(1000, used, 0, 0, 0, 0, 0, 0);
    }

    @Test
    void theCollectorRunsSeldomAndOnlyWhereItMayHelp() {
        CollectionPace pace = new CollectionPace();
        assertFalse(pace.isDue(figures(500), 500, 0), "there is room");
        assertFalse(pace.isDue(figures(900), 50, 0), "it is not worth it");
        assertTrue(pace.isDue(figures(900), 500, 0));
        pace.ran(0, SECOND);
        assertFalse(pace.isDue(figures(900), 500, 49 * SECOND));
        assertTrue(pace.isDue(figures(900), 500, 50 * SECOND));
        pace.ran(100 * SECOND, 1);
        assertFalse(pace.isDue(figures(900), 500, 105 * SECOND));
        assertTrue(pace.isDue(figures(900), 500, 110 * SECOND));
    }
}
