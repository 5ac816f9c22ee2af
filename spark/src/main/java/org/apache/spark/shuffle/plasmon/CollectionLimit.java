package org.apache.spark.shuffle.plasmon;

import org.apache.spark.SparkConf;
import org.apache.spark.util.collection.SizeTracker;

/**
 * How large a collection of records may grow: some bytes without asking, then what Spark's memory
 * manager grants, in steps that double it.
 */
final class CollectionLimit {
    /** How often the size of the collection is looked at, in records. */
    private static final int LOOK_EVERY = 32;

    private final Reservation reservation;
    private final long initialBytes;
    private final int recordsMax;
    private long allowedBytes;
    private int records;

    CollectionLimit(Reservation reservation, SparkConf conf) {
        this.reservation = reservation;
        this.initialBytes = Settings.initialBytes(conf);
        this.recordsMax = Settings.recordsMax(conf);
        this.allowedBytes = initialBytes;
    }

    /** Whether the collection, which has one more record now, must be emptied. */
    boolean isExceededBy(SizeTracker collection) {
        records++;
        if (records >= recordsMax) {
            return true;
        }
        if (records % LOOK_EVERY != 0) {
            return false;
        }
        long size = collection.estimateSize();
        if (size < allowedBytes) {
            return false;
        }
        // As Spark does: room to double, and if there is less, then this much and no more.
        long wanted = 2 * size - allowedBytes;
        if (!reservation.reserve(wanted)) {
            return true;
        }
        allowedBytes += wanted;
        return false;
    }

    /** The collection was emptied: gives back what was granted. */
    void reset() {
        reservation.release(allowedBytes - initialBytes);
        allowedBytes = initialBytes;
        records = 0;
    }
}
