package org.apache.spark.shuffle.plasmon;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.Success$;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.RemoteOutputs;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.Iterator;

/**
 * Makes room for the shuffles that are in use at the expense of those that are not: in the driver,
 * on its own thread.
 *
 * <pre>
 * last job or query that used a shuffle ends ─► its outputs are the first to be spilled
 *                                               └─ little room is left ─► the driver's collector
 *                                                  runs: Spark deletes shuffles that no variable of
 *                                                  the program leads to, once it has found them
 * </pre>
 *
 * <p>Nothing is deleted here, because a later job may read the shuffle of an RDD, or of a query
 * that it is made from, again: where it was spilled, in its file.
 */
final class FinishedShuffles extends SparkListener {
    /** What is written for one shuffle; a shuffle that is {@code used} by no job is finished. */
    record Written(int shuffle, long bytes, long records, boolean used) {}

    private static final Logger LOG = LoggerFactory.getLogger(FinishedShuffles.class);
    private static final String MAP_TASK = "ShuffleMapTask";

    /** The event is SQL's, which this is not compiled with. */
    private static final String QUERY_END =
            "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd";
    private static final String QUERY = "spark.sql.execution.id";
    private static final String ROOT_QUERY = "spark.sql.execution.root.id";

    private final NativeStore store;
    private final boolean isPooled;
    private final MapOutputTrackerMaster tracker;
    private final CollectionPace pace = new CollectionPace();
    private final ShuffleUses uses = new ShuffleUses();
    private final Map<Integer, Integer> shuffleOfStage = new LinkedHashMap<>();
    private final Map<Integer, long[]> written = new LinkedHashMap<>();

    private FinishedShuffles(NativeStore store, boolean isPooled, MapOutputTrackerMaster tracker) {
        this.store = store;
        this.isPooled = isPooled;
        this.tracker = tracker;
    }

    /**
     * Listens in the driver, as long as its application runs.
     *
     * @param isPooled whether outputs are in the stores of several nodes
     */
    static FinishedShuffles listen(SparkContext context, NativeStore store, boolean isPooled) {
        FinishedShuffles made = new FinishedShuffles(store, isPooled,
                (MapOutputTrackerMaster) SparkEnv.get().mapOutputTracker());
        context.listenerBus().addToQueue(made, UnusedOutputs.QUEUE);
        return made;
    }

    /** A shuffle was deleted. */
    synchronized void forget(int shuffle) {
        uses.forget(shuffle);
        written.remove(shuffle);
        shuffleOfStage.values().removeIf(it -> it == shuffle);
    }

    /** The shuffles that are there. */
    synchronized List<Written> list() {
        List<Written> list = new ArrayList<>();
        written.forEach((shuffle, sums) ->
                list.add(new Written(shuffle, sums[0], sums[1], uses.isUsed(shuffle))));
        return list;
    }

    @Override
    public synchronized void onJobStart(SparkListenerJobStart event) {
        List<Integer> shuffles = new ArrayList<>();
        Iterator<StageInfo> stages = SparkShims.stages(event);
        while (stages.hasNext()) {
            StageInfo stage = stages.next();
            Option<Object> shuffle = stage.shuffleDepId();
            if (shuffle.isDefined()) {
                shuffles.add((Integer) shuffle.get());
                shuffleOfStage.put(stage.stageId(), (Integer) shuffle.get());
            }
        }
        uses.jobStarted(event.jobId(), query(event.properties()), shuffles);
    }

    /** The query that the job is a part of, and if that is a part of another one, the whole. */
    private static Long query(Properties properties) {
        String number = properties == null
                ? null
                : properties.getProperty(ROOT_QUERY, properties.getProperty(QUERY));
        return number == null ? null : Long.valueOf(number);
    }

    @Override
    public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
        Integer shuffle = shuffleOfStage.get(event.stageId());
        if (shuffle == null || event.taskMetrics() == null || event.reason() != Success$.MODULE$
                || !MAP_TASK.equals(event.taskType())) {
            return;
        }
        long[] sums = written.computeIfAbsent(shuffle, it -> new long[2]);
        sums[0] += event.taskMetrics().shuffleWriteMetrics().bytesWritten();
        sums[1] += event.taskMetrics().shuffleWriteMetrics().recordsWritten();
    }

    @Override
    public void onJobEnd(SparkListenerJobEnd event) {
        List<Integer> finished;
        synchronized (this) {
            finished = uses.jobEnded(event.jobId());
        }
        demote(finished);
    }

    @Override
    public void onOtherEvent(SparkListenerEvent event) {
        if (!event.getClass().getName().equals(QUERY_END)) {
            return;
        }
        List<Integer> finished;
        synchronized (this) {
            finished = uses.queryEnded(SparkShims.executionId(event));
        }
        demote(finished);
    }

    private void demote(List<Integer> finished) {
        if (finished.isEmpty()) {
            return;
        }
        try {
            for (int shuffle : finished) {
                demote(shuffle);
                LOG.debug("shuffle {} is finished: its outputs are the first to go", shuffle);
            }
            collect();
        } catch (StoreException error) {
            // They are spilled in the order of their use then, and deleted as always.
            LOG.warn("finished shuffles {} were not marked as unused", finished, error);
        }
    }

    private void demote(int shuffle) throws StoreException {
        if (isPooled) {
            store.demoteOutputs(shuffle, outputsInPool(shuffle));
        } else {
            store.demoteShuffle(shuffle);
        }
    }

    /** Where in the pool the outputs are that Spark knows; no node has to be asked for that. */
    private List<RemoteOutputs.Output> outputsInPool(int shuffle) {
        List<RemoteOutputs.Output> outputs = new ArrayList<>();
        Option<ShuffleStatus> status = tracker.shuffleStatuses().get(shuffle);
        if (status.isEmpty()) {
            return outputs;
        }
        for (MapStatus output : status.get().mapStatuses().clone()) {
            OutputPlace place = output == null ? null : OutputPlace.of(output.location());
            if (place != null) {
                outputs.add(new RemoteOutputs.Output(
                        output.mapId(), place.slot(), place.runs(), 0, 0));
            }
        }
        return outputs;
    }

    /** Has the driver's collector find what no variable leads to, before it has to be spilled. */
    private void collect() throws StoreException {
        NativeStore.Figures figures = store.figures();
        long unused = list().stream().filter(it -> !it.used()).mapToLong(Written::bytes).sum();
        if (!pace.isDue(figures, unused, System.nanoTime())) {
            return;
        }
        long began = System.nanoTime();
        System.gc();
        long took = System.nanoTime() - began;
        pace.ran(began, took);
        LOG.info("the store is nearly full, with {} bytes of shuffles that no job uses: the "
                + "driver's collector looked for those that can be deleted, for {} ms",
                unused, took / 1_000_000);
    }

    /** When the collector runs: seldom, and only where it may help. */
    static final class CollectionPace {
        /** From this part of the capacity on the store is nearly full. */
        private static final double FULL = 0.6;

        /** Less than this part of the capacity is not worth it. */
        private static final double WORTH = 0.1;

        /** The collector's share of the time is at most one of this many parts. */
        private static final long PARTS = 50;
        private static final long PAUSE_NS_MIN = 10_000_000_000L;

        private long dueNs;
        private boolean hasRun;

        boolean isDue(NativeStore.Figures figures, long unusedBytes, long nowNs) {
            return figures.usedBytes() >= FULL * figures.capacityBytes()
                    && unusedBytes >= WORTH * figures.capacityBytes()
                    && (!hasRun || nowNs - dueNs >= 0);
        }

        void ran(long beganNs, long tookNs) {
            hasRun = true;
            dueNs = beganNs + Math.max(PAUSE_NS_MIN, PARTS * tookNs);
        }
    }
}
