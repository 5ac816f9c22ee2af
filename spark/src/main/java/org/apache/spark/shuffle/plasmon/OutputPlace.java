package org.apache.spark.shuffle.plasmon;

import org.apache.spark.storage.BlockManagerId;
import scala.Option;

/**
 * Where in a pool an output is, as its location in Spark's map status says: on the node of which
 * slot it was made, and how many runs it has. A reduce task makes the ids of the runs from that.
 */
record OutputPlace(int slot, int runs) {
    private static final String SLOT = "plasmon-slot=";
    private static final String RUNS = ",runs=";

    /** What a location says; {@code null} for an output in the store of one machine. */
    static OutputPlace of(BlockManagerId location) {
        Option<String> topology = location.topologyInfo();
        return topology.isEmpty() ? null : parse(topology.get());
    }

    /** The place that a topology says; {@code null} for one of others. */
    static OutputPlace parse(String text) {
        int runs = text.indexOf(RUNS);
        if (!text.startsWith(SLOT) || runs < 0) {
            return null;
        }
        try {
            return new OutputPlace(
                    Integer.parseInt(text.substring(SLOT.length(), runs)),
                    Integer.parseInt(text.substring(runs + RUNS.length())));
        } catch (NumberFormatException notOurs) {
            return null;
        }
    }

    /** The text for {@link BlockManagerId#topologyInfo}. */
    String text() {
        return SLOT + slot + RUNS + runs;
    }
}
