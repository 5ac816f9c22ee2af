package org.apache.spark.shuffle.plasmon;

import java.util.concurrent.TimeUnit;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Has outputs listed again as soon as Spark's tracker forgets them with a standalone worker.
 *
 * <pre>
 * an executor is removed ─► perhaps its worker is next: the tracker is watched for a while
 *                           └─► its number of changes grows: what it forgot is listed again
 * </pre>
 *
 * <p>A reader that misses outputs asks for them. But a job that begins on a shuffle of which
 * outputs are forgotten asks for nothing, and runs their map tasks again. Spark tells no listener
 * of a removed worker, only of its executors, shortly before; and its scheduler, which forgets the
 * outputs, may begin the next job at once. So a job that begins within about two milliseconds of
 * the removal makes them again. That costs time, and no result: see docs/adr/0114.
 */
final class RemovedWorkers extends SparkListener {
    private static final Logger LOG = LoggerFactory.getLogger(RemovedWorkers.class);
    /** How long after an executor its worker is removed, at most. */
    private static final long WATCH_NS = TimeUnit.SECONDS.toNanos(15);
    /** Between two looks at the tracker's number of changes. */
    private static final long PAUSE_MS = 1;

    private final SurvivingOutputs outputs;
    private long end;
    private boolean isWatched;

    private RemovedWorkers(SurvivingOutputs outputs) {
        this.outputs = outputs;
    }

    /** Listens in the driver, as long as its application runs. */
    static void listen(SparkContext context, SurvivingOutputs outputs) {
        context.listenerBus().addToQueue(new RemovedWorkers(outputs), UnusedOutputs.QUEUE);
    }

    @Override
    public synchronized void onExecutorRemoved(SparkListenerExecutorRemoved event) {
        end = System.nanoTime() + WATCH_NS;
        if (!isWatched) {
            isWatched = true;
            Thread thread = new Thread(this::watch, "plasmon-removed-workers");
            thread.setDaemon(true);
            thread.start();
        }
    }

    @Override
    public void onStageSubmitted(SparkListenerStageSubmitted event) {
        Option<Object> shuffle = event.stageInfo().shuffleDepId();
        if (shuffle.isDefined()) {
            outputs.replaced((Integer) shuffle.get(), event.stageInfo().numTasks());
        }
    }

    private void watch() {
        try {
            long seen = -1;
            while (goesOn()) {
                long changes = outputs.changes();
                if (changes != seen) {
                    outputs.listForgotten();
                    seen = changes;
                }
                Thread.sleep(PAUSE_MS);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (StoreException | RuntimeException error) {
            LOG.warn("outputs that Spark forgets with a worker are left to their readers", error);
            stop();
        }
    }

    private synchronized boolean goesOn() {
        isWatched = System.nanoTime() - end < 0;
        return isWatched;
    }

    /** The next executor that is removed has the tracker watched again. */
    private synchronized void stop() {
        isWatched = false;
    }
}
