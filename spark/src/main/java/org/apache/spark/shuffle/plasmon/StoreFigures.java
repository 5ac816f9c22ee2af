package org.apache.spark.shuffle.plasmon;

import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The store's figures for what shows them: asked for once, however many are shown together, and
 * what was known last where the store does not answer.
 */
final class StoreFigures {
    private static final Logger LOG = LoggerFactory.getLogger(StoreFigures.class);
    private static final long FRESH_NS = 500_000_000;
    private static final NativeStore.Figures NONE = new NativeStore.Figures(0, 0, 0, 0, 0, 0, 0, 0);

    private final NativeStore store;
    private NativeStore.Figures last = NONE;
    private long askedNs;
    private boolean asked;

    StoreFigures(NativeStore store) {
        this.store = store;
    }

    synchronized NativeStore.Figures get() {
        if (!asked || System.nanoTime() - askedNs > FRESH_NS) {
            try {
                last = store.figures();
            } catch (StoreException error) {
                LOG.debug("the store's figures are those of before", error);
            }
            asked = true;
            askedNs = System.nanoTime();
        }
        return last;
    }
}
