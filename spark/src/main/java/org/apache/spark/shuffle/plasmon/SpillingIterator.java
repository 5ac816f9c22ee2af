package org.apache.spark.shuffle.plasmon;

import java.io.IOException;

import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The records of a full collection on their way out, the rest of which may be moved into the store
 * at any moment, because another part of the task needs the memory.
 *
 * <p>A request for that memory comes with the memory manager's lock held, so nothing is asked of
 * the memory manager under the lock of this object.
 */
final class SpillingIterator<K, C> extends AbstractIterator<Tuple2<K, C>> {
    private final SpillSpace space;
    private final Runnable atEnd;
    private Iterator<Tuple2<K, C>> rest;
    private boolean movable = true;

    SpillingIterator(Iterator<Tuple2<K, C>> records, SpillSpace space, Runnable atEnd) {
        this.rest = records;
        this.space = space;
        this.atEnd = atEnd;
    }

    /** Moves what is left; whether that gave memory back. */
    synchronized boolean move() throws IOException {
        if (!movable || !rest.hasNext()) {
            return false;
        }
        movable = false;
        rest = space.move(rest);
        return true;
    }

    @Override
    public boolean hasNext() {
        boolean ended;
        synchronized (this) {
            if (rest.hasNext()) {
                return true;
            }
            ended = movable;
            movable = false;
        }
        if (ended) {
            atEnd.run();
        }
        return false;
    }

    @Override
    public synchronized Tuple2<K, C> next() {
        return rest.next();
    }
}
