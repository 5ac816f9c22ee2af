package org.apache.spark.shuffle.plasmon;

import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Which outputs that Spark's tracker does not know any more may be told to it again. Any thread may
 * ask.
 *
 * <pre>
 * known, forgotten by index ─► some are known: those that one worker made went with it
 *                           └► none is known: Spark has dropped them, and makes all of them anew
 * </pre>
 *
 * <p>What was given up once is never told again: a reader has missed it or found it damaged, or
 * Spark has dropped it for good. An old output beside new ones would be wrong.
 */
final class ForgottenOutputs {
    /** Stands for no output; attempts are numbered from 0 on. */
    static final long NONE = -1;

    private final Set<Long> givenUp = ConcurrentHashMap.newKeySet();

    /** It is not to be told again. */
    void giveUp(long mapId) {
        if (mapId != NONE) {
            givenUp.add(mapId);
        }
    }

    /**
     * A stage was submitted that makes all outputs of a shuffle: what it had before was dropped.
     *
     * @param forgotten the attempts whose outputs the tracker does not know any more
     */
    void giveUpAll(long[] forgotten) {
        Arrays.stream(forgotten).forEach(this::giveUp);
    }

    /**
     * The map indices whose outputs may be told again.
     *
     * @param known for each map task the attempt whose output the tracker knows, or {@link #NONE}
     * @param forgotten for each map task the last one that it knew before, or {@link #NONE}
     */
    int[] of(long[] known, long[] forgotten) {
        if (Arrays.stream(known).allMatch(mapId -> mapId == NONE)) {
            giveUpAll(forgotten);
            return new int[0];
        }
        int[] found = new int[known.length];
        int count = 0;
        for (int index = 0; index < known.length; index++) {
            boolean isForgotten = known[index] == NONE && forgotten[index] != NONE;
            if (isForgotten && !givenUp.contains(forgotten[index])) {
                found[count++] = index;
            }
        }
        return Arrays.copyOf(found, count);
    }
}
