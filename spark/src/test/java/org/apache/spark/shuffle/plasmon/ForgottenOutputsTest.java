package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import org.junit.jupiter.api.Test;

/** An old output that is told again beside new ones would make results wrong. */
class ForgottenOutputsTest {
    private static final long NO = ForgottenOutputs.NONE;

    private final ForgottenOutputs forgotten = new ForgottenOutputs();

    private void assertMayBeTold(long[] known, long[] before, int... indices) {
        assertArrayEquals(indices, forgotten.of(known, before));
    }

    @Test
    void whatWentWithAWorkerIsToldAgain() {
        assertMayBeTold(new long[] {0, NO, 2, NO}, new long[] {NO, 1, NO, 3}, 1, 3);
        // One has been made again meanwhile.
        assertMayBeTold(new long[] {0, NO, 2, 9}, new long[] {NO, 1, NO, 3}, 1);
    }

    @Test
    void aShuffleThatIsWholeOrNewHasNothingToTell() {
        assertMayBeTold(new long[] {0, 1}, new long[] {NO, NO});
        assertMayBeTold(new long[] {NO, NO}, new long[] {NO, NO});
        assertMayBeTold(new long[] {NO, 1}, new long[] {NO, NO});
        assertMayBeTold(new long[] {}, new long[] {});
    }

    /** A worker is removed late, while the new ones are made: some are known, and old ones not. */
    @Test
    void whatWasDroppedAsAWholeStaysDroppedWhileItIsMadeAnew() {
        long[] dropped = {0, 1, 2, 3};
        assertMayBeTold(new long[] {NO, NO, NO, NO}, dropped);
        assertMayBeTold(new long[] {NO, 10, NO, NO}, dropped);
        assertMayBeTold(new long[] {12, 10, 13, NO}, dropped);
        // Of the new ones it may.
        assertMayBeTold(new long[] {12, NO, 13, 11}, new long[] {0, 10, 2, 3}, 1);
    }

    /** The drop was not seen; the stage that follows from it was heard of. */
    @Test
    void whatAStageMakesAnewStaysDropped() {
        long[] dropped = {0, 1, NO, 3};
        forgotten.giveUpAll(dropped);
        assertMayBeTold(new long[] {NO, 10, NO, NO}, dropped);
    }

    @Test
    void aDamagedOutputStaysForgotten() {
        forgotten.giveUp(1);
        assertMayBeTold(new long[] {0, NO, NO}, new long[] {NO, 1, 2}, 2);
    }
}
