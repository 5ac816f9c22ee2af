package org.apache.spark.shuffle.plasmon;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.Resubmitted$;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.plasmon.shuffle.MapOutput;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Deletes what attempts at map tasks left that did not count: one that had committed its output
 * when its speculative twin had won, and one whose executor died.
 *
 * <p>In the driver: Spark tells it of every attempt that ends, also after its stage. An attempt
 * whose end is a failure is never named by Spark's tracker afterwards. It deletes on a thread of
 * its own: in a pool all nodes are asked what the attempt left, which takes seconds while one of
 * them has died, and other listeners must hear meanwhile what is lost.
 */
final class UnusedOutputs extends SparkListener {
    private static final Logger LOG = LoggerFactory.getLogger(UnusedOutputs.class);
    static final String QUEUE = "plasmon";
    private static final String MAP_TASK = "ShuffleMapTask";

    private final NativeStore store;
    private final boolean isPooled;
    private final MapOutputTrackerMaster tracker;
    private final Background deletes = new Background("plasmon-unused-outputs");
    /** Of each stage that writes a shuffle, as long as the shuffle is there. */
    private final Map<Integer, Integer> shuffles = new ConcurrentHashMap<>();

    private UnusedOutputs(NativeStore store, boolean isPooled, MapOutputTrackerMaster tracker) {
        this.store = store;
        this.isPooled = isPooled;
        this.tracker = tracker;
    }

    /** Listens in the driver, as long as its application runs. */
    static UnusedOutputs listen(SparkContext context, NativeStore store, boolean isPooled) {
        UnusedOutputs made = new UnusedOutputs(store, isPooled,
                (MapOutputTrackerMaster) SparkEnv.get().mapOutputTracker());
        context.listenerBus().addToQueue(made, QUEUE);
        context.listenerBus().addToQueue(new JobFailures.LaterJobs(), QUEUE);
        return made;
    }

    /** The application ends, and takes everything along. */
    void stop() {
        deletes.stop();
    }

    /** The shuffle was deleted, with everything. */
    void forget(int shuffle) {
        shuffles.values().removeIf(written -> written == shuffle);
    }

    @Override
    public void onStageSubmitted(SparkListenerStageSubmitted event) {
        Option<Object> shuffle = event.stageInfo().shuffleDepId();
        if (shuffle.isDefined()) {
            shuffles.put(event.stageInfo().stageId(), (Integer) shuffle.get());
        }
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd event) {
        Integer shuffle = shuffles.get(event.stageId());
        boolean failed = event.reason() instanceof TaskFailedReason
                && event.reason() != Resubmitted$.MODULE$;
        if (shuffle == null || !failed || !MAP_TASK.equals(event.taskType())) {
            return;
        }
        long attempt = event.taskInfo().taskId();
        deletes.run(() -> delete(shuffle, attempt));
    }

    private void delete(int shuffle, long attempt) {
        if (isNamed(shuffle, attempt)) {
            return;
        }
        try {
            int runs = isPooled
                    ? store.deleteEverywhere(shuffle, attempt)
                    : MapOutput.delete(store, shuffle, attempt);
            LOG.debug("attempt {} of shuffle {} was not used: {} runs", attempt, shuffle, runs);
        } catch (StoreException error) {
            if (deletes.isStopped()) {
                LOG.debug("attempt {} of shuffle {} ends with the application", attempt, shuffle);
                return;
            }
            LOG.warn("attempt {} of shuffle {} left its output there", attempt, shuffle, error);
        }
    }

    private boolean isNamed(int shuffle, long attempt) {
        Option<ShuffleStatus> status = tracker.shuffleStatuses().get(shuffle);
        if (status.isEmpty()) {
            return false;
        }
        for (MapStatus output : status.get().mapStatuses().clone()) {
            if (output != null && output.mapId() == attempt) {
                return true;
            }
        }
        return false;
    }
}
