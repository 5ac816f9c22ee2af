package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class StartFailureTest {
    /** As Spark's, which does not load without all of Spark. */
    public interface Backend {
        boolean isReady();

        int defaultParallelism();

        void stop();
    }

    /** One that has no executors, and refuses to stop. */
    private static final class Waiting implements Backend {
        private final IllegalStateException refused = new IllegalStateException("refused");

        @Override
        public boolean isReady() {
            return false;
        }

        @Override
        public int defaultParallelism() {
            return 7;
        }

        @Override
        public void stop() {
            throw refused;
        }
    }

    @Test
    void onlyTheQuestionWhetherItIsReadyFails() {
        Waiting waiting = new Waiting();
        Backend unready = StartFailure.unready(Backend.class, waiting, "executors cannot start");
        assertEquals("executors cannot start",
                assertThrows(IllegalStateException.class, unready::isReady).getMessage());
        assertEquals(7, unready.defaultParallelism());
        assertSame(waiting.refused, assertThrows(IllegalStateException.class, unready::stop));
    }
}
