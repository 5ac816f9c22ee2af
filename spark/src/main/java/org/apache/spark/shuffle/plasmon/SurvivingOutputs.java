package org.apache.spark.shuffle.plasmon;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.rdd.DeterministicLevel;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rpc.IsolatedRpcEndpoint;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.MetadataFetchFailedException;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.RpcUtils;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.PartialFunction;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Outputs that Spark forgot with a standalone worker, although they are there: in the store that
 * goes on without the worker, or on other nodes of the pool.
 *
 * <pre>
 * a worker is removed ─► Spark's tracker forgets all outputs on its host
 * reader: Spark does not know all outputs ─► driver: looks at those that were forgotten
 *                                            └─► the tracker is told again of those that are there
 * </pre>
 *
 * <p>Those of an indeterminate stage stay forgotten: Spark makes all of them again, and may have
 * begun. So do those that a reader has missed or found damaged.
 */
final class SurvivingOutputs implements IsolatedRpcEndpoint {
    private static final Logger LOG = LoggerFactory.getLogger(SurvivingOutputs.class);
    private static final String NAME = "plasmon-surviving-outputs";

    private final SparkEnv env;
    private final OutputCheck check;
    private final Map<Integer, WeakReference<RDD<?>>> written = new ConcurrentHashMap<>();
    private final Set<Long> givenUp = ConcurrentHashMap.newKeySet();

    private SurvivingOutputs(SparkEnv env, OutputCheck check) {
        this.env = env;
        this.check = check;
    }

    /** Listens in the driver, as long as its application runs. */
    static SurvivingOutputs listen(SparkEnv env, OutputCheck check) {
        SurvivingOutputs made = new SurvivingOutputs(env, check);
        env.rpcEnv().setupEndpoint(NAME, made);
        return made;
    }

    /** A shuffle was registered, which this RDD's partitions write. */
    void register(int shuffle, RDD<?> rdd) {
        written.put(shuffle, new WeakReference<>(rdd));
    }

    /** The shuffle was deleted. */
    void forget(int shuffle) {
        written.remove(shuffle);
    }

    /** A reader has missed this output, or found it damaged. */
    void giveUp(long mapId) {
        givenUp.add(mapId);
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
    public RpcEnv rpcEnv() {
        return env.rpcEnv();
    }

    /** One after the other: the second reader of a shuffle finds it restored. */
    @Override
    public int threadCount() {
        return 1;
    }

    @Override
    public PartialFunction<Object, BoxedUnit> receiveAndReply(RpcCallContext context) {
        return new AbstractPartialFunction<>() {
            @Override
            public boolean isDefinedAt(Object message) {
                return message instanceof int[] numbers && numbers.length == 2;
            }

            @Override
            public BoxedUnit apply(Object message) {
                int[] numbers = (int[]) message;
                try {
                    context.reply(restore(numbers[0], numbers[1]));
                } catch (StoreException | RuntimeException error) {
                    context.sendFailure(error);
                }
                return BoxedUnit.UNIT;
            }
        };
    }

    /** How many outputs of the shuffle the tracker knows of those that it did not when asked. */
    private int restore(int shuffle, int partitions) throws StoreException {
        MapOutputTrackerMaster tracker = (MapOutputTrackerMaster) env.mapOutputTracker();
        Option<ShuffleStatus> status = tracker.shuffleStatuses().get(shuffle);
        if (status.isEmpty() || isIndeterminate(shuffle)) {
            return 0;
        }
        MapStatus[] known = status.get().mapStatuses().clone();
        MapStatus[] forgotten = status.get().mapStatusesDeleted().clone();
        List<MapStatus> candidates = new ArrayList<>();
        int unknown = 0;
        for (int index = 0; index < known.length; index++) {
            MapStatus output = forgotten[index];
            unknown += known[index] == null ? 1 : 0;
            if (known[index] == null && output != null && !givenUp.contains(output.mapId())) {
                candidates.add(output);
            }
        }
        if (unknown == 0) {
            // Another reader asked before, or the map task has run again.
            return known.length;
        }
        boolean[] areThere = check.areThere(shuffle, partitions, candidates);
        int restored = 0;
        for (int at = 0; at < areThere.length; at++) {
            if (areThere[at]) {
                MapStatus output = candidates.get(at);
                tracker.updateMapOutput(shuffle, output.mapId(), moved(output.location(), at));
                restored++;
            }
        }
        LOG.warn("{} of {} outputs of shuffle {} that Spark had forgotten are still there",
                restored, unknown, shuffle);
        return restored;
    }

    private boolean isIndeterminate(int shuffle) {
        WeakReference<RDD<?>> reference = written.get(shuffle);
        RDD<?> rdd = reference == null ? null : reference.get();
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
