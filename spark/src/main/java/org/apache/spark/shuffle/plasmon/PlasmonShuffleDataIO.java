package org.apache.spark.shuffle.plasmon;

import java.util.Collections;
import java.util.Map;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.shuffle.api.ShuffleDataIO;
import org.apache.spark.shuffle.api.ShuffleDriverComponents;
import org.apache.spark.shuffle.api.ShuffleExecutorComponents;

/**
 * The driver's part of the shuffle, beside the shuffle manager: it tells Spark that the shuffle
 * outlives executors, and deletes shuffles that are not needed any more.
 */
public class PlasmonShuffleDataIO implements ShuffleDataIO {
    /** Called by Spark. */
    public PlasmonShuffleDataIO(SparkConf conf) {}

    @Override
    public ShuffleDriverComponents driver() {
        return new DriverComponents();
    }

    /** Only Spark's own writers ask for these. */
    @Override
    public ShuffleExecutorComponents executor() {
        throw new UnsupportedOperationException(
                "Plasmon's shuffle is not used: set spark.shuffle.manager="
                        + PlasmonShuffleManager.class.getName() + " beside " + Settings.DATA_IO);
    }

    private static final class DriverComponents implements ShuffleDriverComponents {
        @Override
        public Map<String, String> initializeApplication() {
            FailedStarts.listen(SparkEnv.get());
            return Collections.emptyMap();
        }

        @Override
        public void cleanupApplication() {
            // The shuffle manager leaves when Spark stops it, which is after the executors.
        }

        /** Executors forget where the shuffle was before it is gone. */
        @Override
        public void removeShuffle(int shuffleId, boolean blocking) {
            SparkEnv.get().blockManager().master().removeShuffle(shuffleId, blocking);
            Application.current().removeShuffle(shuffleId);
        }

        @Override
        public boolean supportsReliableStorage() {
            return true;
        }
    }
}
