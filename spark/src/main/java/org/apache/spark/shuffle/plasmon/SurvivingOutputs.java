package org.apache.spark.shuffle.plasmon;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.rdd.DeterministicLevel;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.MetadataFetchFailedException;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.RpcUtils;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/**
 * Outputs that Spark forgot with a standalone worker, although they are there: in the store that
 * goes on without the worker, or on other nodes of the pool.
 *
 * <pre>
 * a worker is removed ─► Spark's tracker forgets all outputs on its host
 * driver: those that have copies, are in one store or are there ─► the tracker is told again
 * reader: Spark does not know all outputs ─► driver: looks at those that were forgotten
 *                                            └─► the tracker is told again of those that are there
 * </pre>
 *
 * <p>Those of an indeterminate stage stay forgotten: Spark makes all of them again, and may have
 * begun. So do those that a reader has missed or found damaged, and all of a shuffle that Spark
 * drops as a whole.
 */
final class SurvivingOutputs extends DriverEndpoint<int[]> {
    private static final Logger LOG = LoggerFactory.getLogger(SurvivingOutputs.class);
    private static final String NAME = "plasmon-surviving-outputs";

    private final OutputCheck check;
    /** Whether an output outlives the loss of the machine that it was made on. */
    private final boolean areLasting;
    private final HeardEvents heard;
    private final Map<Integer, Written> written = new ConcurrentHashMap<>();
    private final ForgottenOutputs forgotten = new ForgottenOutputs();

    /** A shuffle: what writes it, and into how many partitions. */
    private record Written(WeakReference<RDD<?>> rdd, int partitions) {}

    private SurvivingOutputs(
            SparkEnv env, OutputCheck check, boolean areLasting, HeardEvents heard) {
        super(env);
        this.check = check;
        this.areLasting = areLasting;
        this.heard = heard;
    }

    /** Listens in the driver, as long as its application runs. */
    static SurvivingOutputs listen(
            SparkContext context, SparkEnv env, OutputCheck check, PoolMember pool) {
        boolean areLasting = pool == null || pool.copies() > 1;
        SurvivingOutputs made = new SurvivingOutputs(
                env, check, areLasting, HeardEvents.listen(context));
        env.rpcEnv().setupEndpoint(NAME, made);
        return made;
    }

    /** A shuffle was registered, which this RDD's partitions write. */
    void register(int shuffle, RDD<?> rdd, int partitions) {
        written.put(shuffle, new Written(new WeakReference<>(rdd), partitions));
    }

    /** The shuffle was deleted. */
    void forget(int shuffle) {
        written.remove(shuffle);
    }

    /** A reader has missed this output, or found it damaged. */
    void giveUp(long mapId) {
        forgotten.giveUp(mapId);
    }

    /**
     * What the tracker lists for a reader. Where it does not know all outputs, the driver is asked
     * once to look at those that it has forgotten.
     */
    static MapBlocks[] orRestored(
            SparkConf conf, int shuffle, int partitions, Supplier<MapBlocks[]> listed) {
        try {
            return listed.get();
        } catch (Exception error) {
            if (!(error instanceof MetadataFetchFailedException)
                    || ask(conf, shuffle, partitions) == 0) {
                throw Failures.unchecked(error);
            }
        }
        SparkEnv.get().mapOutputTracker().unregisterShuffle(shuffle);
        return listed.get();
    }

    private static int ask(SparkConf conf, int shuffle, int partitions) {
        if (SparkEnv.get().mapOutputTracker() instanceof MapOutputTrackerMaster) {
            // In local mode there are no workers, and the driver's tracker must not forget.
            return 0;
        }
        int[] message = {shuffle, partitions};
        try {
            return (Integer) RpcUtils.makeDriverRef(NAME, conf, SparkEnv.get().rpcEnv())
                    .askSync(message, ClassTag$.MODULE$.Object());
        } catch (RuntimeException error) {
            LOG.warn("cannot ask the driver for forgotten outputs of shuffle {}", shuffle, error);
            return 0;
        }
    }

    @Override
    int[] taken(Object message) {
        return message instanceof int[] numbers && numbers.length == 2 ? numbers : null;
    }

    /** The second reader of a shuffle finds it restored. */
    @Override
    Object answer(int[] numbers) throws StoreException {
        return restore(numbers[0], numbers[1]);
    }

    /** Grows when the tracker has forgotten outputs. */
    long changes() {
        return tracker().getEpoch();
    }

    /**
     * Tells the tracker again of outputs that it has forgotten, of all shuffles. Those with further
     * copies are not looked at: should one be lost all the same, its reader says so. Of the others
     * those are given up that are not there.
     */
    void listForgotten() throws StoreException {
        for (Map.Entry<Integer, Written> shuffle : written.entrySet()) {
            listForgotten(shuffle.getKey(), shuffle.getValue().partitions());
        }
    }

    private synchronized void listForgotten(int shuffle, int partitions) throws StoreException {
        Option<ShuffleStatus> status = tracker().shuffleStatuses().get(shuffle);
        if (status.isEmpty()) {
            return;
        }
        if (forgotten(status.get()).isEmpty() || isIndeterminate(shuffle) || !heard.all()) {
            return;
        }
        // All of them may have been dropped for good, as was heard meanwhile.
        List<MapStatus> candidates = forgotten(status.get());
        if (candidates.isEmpty()) {
            return;
        }
        boolean[] areThere = new boolean[candidates.size()];
        if (areLasting) {
            Arrays.fill(areThere, true);
        } else {
            areThere = check.areThere(shuffle, partitions, candidates);
        }
        int listed = 0;
        for (int at = 0; at < areThere.length; at++) {
            if (areThere[at]) {
                list(shuffle, candidates.get(at), at);
                listed++;
            } else {
                giveUp(candidates.get(at).mapId());
            }
        }
        LOG.warn("of {} outputs of shuffle {} that Spark had forgotten {} are listed again",
                areThere.length, shuffle, listed);
    }

    /** How many outputs of the shuffle the tracker knows of those that it did not when asked. */
    private synchronized int restore(int shuffle, int partitions) throws StoreException {
        Option<ShuffleStatus> status = tracker().shuffleStatuses().get(shuffle);
        if (status.isEmpty() || isIndeterminate(shuffle)) {
            return 0;
        }
        long unknown = Arrays.stream(status.get().mapStatuses()).filter(Objects::isNull).count();
        if (unknown == 0) {
            // Another reader asked before, or the map task has run again.
            return status.get().mapStatuses().length;
        }
        if (!heard.all()) {
            return 0;
        }
        List<MapStatus> candidates = forgotten(status.get());
        boolean[] areThere = check.areThere(shuffle, partitions, candidates);
        int restored = 0;
        for (int at = 0; at < areThere.length; at++) {
            if (areThere[at]) {
                list(shuffle, candidates.get(at), at);
                restored++;
            }
        }
        LOG.warn("{} of {} outputs of shuffle {} that Spark had forgotten are still there",
                restored, unknown, shuffle);
        return restored;
    }

    private MapOutputTrackerMaster tracker() {
        return (MapOutputTrackerMaster) env.mapOutputTracker();
    }

    /**
     * A stage was submitted that makes all outputs of a shuffle. If there were others before, Spark
     * found that they do not fit together: newer lines compare the checksums of rows.
     */
    void replaced(int shuffle, int outputs) {
        Option<ShuffleStatus> status = tracker().shuffleStatuses().get(shuffle);
        if (!status.isEmpty() && status.get().mapStatusesDeleted().length == outputs) {
            forgotten.giveUpAll(attempts(status.get().mapStatusesDeleted()));
        }
    }

    /** What the tracker knew and does not know now, except what is lost or is made anew. */
    private List<MapStatus> forgotten(ShuffleStatus status) {
        MapStatus[] known = status.mapStatuses().clone();
        MapStatus[] deleted = status.mapStatusesDeleted().clone();
        return Arrays.stream(forgotten.of(attempts(known), attempts(deleted)))
                .mapToObj(index -> deleted[index])
                .toList();
    }

    private static long[] attempts(MapStatus[] outputs) {
        return Arrays.stream(outputs)
                .mapToLong(output -> output == null ? ForgottenOutputs.NONE : output.mapId())
                .toArray();
    }

    private void list(int shuffle, MapStatus output, int number) {
        tracker().updateMapOutput(shuffle, output.mapId(), moved(output.location(), number));
    }

    private boolean isIndeterminate(int shuffle) {
        Written entry = written.get(shuffle);
        RDD<?> rdd = entry == null ? null : entry.rdd().get();
        return rdd == null
                || rdd.outputDeterministicLevel().equals(DeterministicLevel.INDETERMINATE());
    }

    /** The same place on the host of an executor that is there: Spark prefers hosts of outputs. */
    private BlockManagerId moved(BlockManagerId location, int number) {
        List<BlockManagerId> executors = new ArrayList<>();
        Iterator<BlockManagerId> managers =
                env.blockManager().master().getMemoryStatus().keysIterator();
        while (managers.hasNext()) {
            BlockManagerId manager = managers.next();
            if (!manager.isDriver()) {
                executors.add(manager);
            }
        }
        if (executors.isEmpty()) {
            return location;
        }
        BlockManagerId there = executors.get(number % executors.size());
        return BlockManagerId.apply(
                location.executorId(), there.host(), there.port(), location.topologyInfo());
    }
}
