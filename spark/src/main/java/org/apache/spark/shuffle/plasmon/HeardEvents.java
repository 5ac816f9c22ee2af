package org.apache.spark.shuffle.plasmon;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits until our listeners have heard what Spark has told so far: it tells them later than its
 * tracker changes, on another thread.
 *
 * <pre>
 * a stage is submitted ─► its event ─┐ queue ─► our listeners
 * all() ─► a mark ───────────────────┘       └─► the mark: all before it was heard
 * </pre>
 */
final class HeardEvents extends SparkListener {
    private static final Logger LOG = LoggerFactory.getLogger(HeardEvents.class);
    private static final long WAIT_S = 30;

    private final LiveListenerBus bus;

    private HeardEvents(LiveListenerBus bus) {
        this.bus = bus;
    }

    /** Listens in the driver, as long as its application runs. */
    static HeardEvents listen(SparkContext context) {
        HeardEvents made = new HeardEvents(context.listenerBus());
        context.listenerBus().addToQueue(made, UnusedOutputs.QUEUE);
        return made;
    }

    /** Comes after what was told before it; it is in no event log. */
    private record Mark(HeardEvents of, CountDownLatch heard) implements SparkListenerEvent {
        @Override
        public boolean logEvent() {
            return false;
        }
    }

    /**
     * Waits until all that was told has been heard; false when that takes too long, or the
     * application ends. Not for the thread of the listeners.
     */
    boolean all() {
        Mark mark = new Mark(this, new CountDownLatch(1));
        bus.post(mark);
        try {
            if (mark.heard().await(WAIT_S, TimeUnit.SECONDS)) {
                return true;
            }
            LOG.warn("listeners have not heard of the last stages within {} s; outputs that Spark "
                    + "has forgotten stay so", WAIT_S);
        } catch (InterruptedException toStop) {
            Thread.currentThread().interrupt();
        }
        return false;
    }

    @Override
    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof Mark mark && mark.of() == this) {
            mark.heard().countDown();
        }
    }
}
