package org.apache.spark.shuffle.plasmon;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

import org.apache.spark.MapOutputTrackerMaster;
import org.apache.spark.ShuffleStatus;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.util.RpcUtils;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.reflect.ClassTag$;

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
final class LostOutputs extends DriverEndpoint<long[]> {
    private static final Logger LOG = LoggerFactory.getLogger(LostOutputs.class);
    private static final String NAME = "plasmon-lost-outputs";

    private final OutputCheck check;
    private final SurvivingOutputs surviving;

    private LostOutputs(SparkEnv env, OutputCheck check, SurvivingOutputs surviving) {
        super(env);
        this.check = check;
        this.surviving = surviving;
    }

    /** Listens in the driver, as long as its application runs. */
    static void listen(SparkEnv env, OutputCheck check, SurvivingOutputs surviving) {
        env.rpcEnv().setupEndpoint(NAME, new LostOutputs(env, check, surviving));
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
    long[] taken(Object message) {
        return message instanceof long[] numbers && numbers.length == 4 ? numbers : null;
    }

    @Override
    Object answer(long[] numbers) throws StoreException {
        return forget(Report.of(numbers));
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
        surviving.giveUp(lost.mapId());
        List<Integer> gone = gone(outputs, lost);
        gone.forEach(index -> {
            surviving.giveUp(outputs[index].mapId());
            tracker.unregisterMapOutput(lost.shuffle(), index, outputs[index].location());
        });
        LOG.warn("{} of {} outputs of shuffle {} are gone; their map tasks run again",
                gone.size(), outputs.length, lost.shuffle());
        return gone.size();
    }

    /** Which map tasks' outputs are gone. */
    private List<Integer> gone(MapStatus[] outputs, Report lost) throws StoreException {
        List<Integer> known = IntStream.range(0, outputs.length)
                .filter(index -> outputs[index] != null)
                .boxed()
                .toList();
        List<MapStatus> listed = known.stream().map(index -> outputs[index]).toList();
        boolean[] areThere = check.areThere(lost.shuffle(), lost.partitions(), listed);
        List<Integer> gone = new ArrayList<>();
        for (int at = 0; at < areThere.length; at++) {
            if (!areThere[at]) {
                gone.add(known.get(at));
            }
        }
        return gone;
    }
}
