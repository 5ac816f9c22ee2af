package org.plasmon.shuffle;

/**
 * Identifies one run of the output of one attempt at a map task. Spark never uses an attempt's
 * number twice in an application, so reruns and speculation make runs of their own.
 *
 * @param shuffle Spark's number of the shuffle
 * @param map Spark's number of the attempt, which it calls mapId
 * @param run which run; 0 is the one sealed last, which says how many there are
 */
public record RunId(int shuffle, long map, int run) {
    long shuffleAndRun() {
        return ((long) shuffle << 32) | (run & 0xffff_ffffL);
    }

    @Override
    public String toString() {
        return "shuffle-" + shuffle + "/" + map + "/" + run;
    }
}
