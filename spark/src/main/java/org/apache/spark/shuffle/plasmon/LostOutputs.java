package org.apache.spark.shuffle.plasmon;

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.IsolatedRpcEndpoint;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.util.RpcUtils;
import org.plasmon.shuffle.MapOutput;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.PartialFunction;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * The driver's search for all outputs of a shuffle that are gone, once a task has missed one.
 *
 * <pre>
 * reader: an output is gone ─► report ─► driver: looks at every output of the shuffle
 *                                                 └─► Spark's tracker forgets those that are gone
 * reader: FetchFailed ─► Spark runs the map tasks of all forgotten outputs again, at once
 * </pre>
 *
 * <p>A fetch failure names one output only, and Spark gives a stage up after four of them. Messages
 * are arrays of numbers, which every class loader knows.
 */
final class LostOutputs implements IsolatedRpcEndpoint {
    private static final Logger LOG = LoggerFactory.getLogger(LostOutputs.class);
    private static final String NAME = "plasmon-lost-outputs";

    private final SparkEnv env;
    private final NativeStore store;

    private LostOutputs(SparkEnv env, NativeStore store) {
        this.env = env;
        this.store = store;
    }

    /** Listens in the driver, as long as its application runs. */
    static void listen(SparkEnv env, NativeStore store) {
        env.rpcEnv().setupEndpoint(NAME, new LostOutputs(env, store));
    }

    /** An output that a reader missed, and how many partitions its shuffle has. */
    record Report(int shuffle, int mapIndex, long mapId, int partitions) {
        private long[] message() {
            return new long[] {shuffle, mapIndex, mapId, partitions};
        }

        private static Report of(long[] message) {
            return new Report((int) message[0], (int) message[1], message[2], (int) message[3]);
        }
    }

    /** Tells the driver, and returns when Spark's tracker has forgotten all that is gone. */
    static void report(SparkConf conf, Report lost) {
        try {
            RpcUtils.makeDriverRef(NAME, conf, SparkEnv.get().rpcEnv())
                    .askSync(lost.message(), ClassTag$.MODULE$.Object());
        } catch (RuntimeException error) {
            // The failure that follows names this output; further ones cost an attempt each.
            LOG.warn("cannot tell the driver which outputs shuffle {} lost", lost.shuffle(), error);
        }
    }

    @Override
    public RpcEnv rpcEnv() {
        return env.rpcEnv();
    }

    /** Reports are looked into one after the other, and no other message of Spark's waits. */
    @Override
    public int threadCount() {
        return 1;
    }

    @Override
    public PartialFunction<Object, BoxedUnit> receiveAndReply(RpcCallContext context) {
        return new AbstractPartialFunction<>() {
            @Override
            public boolean isDefinedAt(Object message) {
                return message instanceof long[] numbers && numbers.length == 4;
            }

            @Override
            public BoxedUnit apply(Object message) {
                try {
                    context.reply(forget(Report.of((long[]) message)));
                } catch (StoreException | RuntimeException error) {
                    context.sendFailure(error);
                }
                return BoxedUnit.UNIT;
            }
        };
    }

    /** How many outputs the tracker forgot. */
    private int forget(Report lost) throws StoreException {
        MapOutputTrackerMaster tracker = (MapOutputTrackerMaster) env.mapOutputTracker();
        Option<ShuffleStatus> status = tracker.shuffleStatuses().get(lost.shuffle());
        if (status.isEmpty()) {
            return 0;
        }
        MapStatus[] outputs = status.get().mapStatuses().clone();
        MapStatus missed = outputs[lost.mapIndex()];
        if (missed == null || missed.mapId() != lost.mapId()) {
            // Another task missed it, too, and all were looked at then.
            return 0;
        }
        List<Integer> gone = new ArrayList<>();
        for (int index = 0; index < outputs.length; index++) {
            if (outputs[index] != null && isGone(outputs[index], lost)) {
                gone.add(index);
            }
        }
        gone.forEach(index -> tracker.unregisterMapOutput(
                lost.shuffle(), index, outputs[index].location()));
        LOG.warn("{} of {} outputs of shuffle {} are gone; their map tasks run again",
                gone.size(), outputs.length, lost.shuffle());
        return gone.size();
    }

    /** An output without bytes was never in the store. */
    private boolean isGone(MapStatus output, Report lost) throws StoreException {
        for (int partition = 0; partition < lost.partitions(); partition++) {
            if (output.getSizeForBlock(partition) > 0) {
                return !MapOutput.isWhole(store, lost.shuffle(), output.mapId());
            }
        }
        return false;
    }
}
