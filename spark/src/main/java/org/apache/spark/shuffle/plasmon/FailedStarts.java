package org.apache.spark.shuffle.plasmon;

import java.util.HashSet;
import java.util.Set;

import org.apache.spark.SecurityManager;
import org.apache.spark.SecurityManager$;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.rpc.RpcEnv$;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.RpcUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/**
 * The messages to the driver of executors that cannot join the application.
 *
 * <pre>
 * executor: cannot join ─► report ─► driver: counts them
 *                                     └─► the third one, and no executor works: the jobs that
 *                                         wait for executors fail with its reason, or the start of
 *                                         the application that does
 * executor: exits ─► Spark starts another one, without end
 * </pre>
 *
 * <p>Of such an executor Spark's driver knows the exit code at most. Messages are arrays of
 * strings, which every class loader knows.
 */
final class FailedStarts extends DriverEndpoint<String[]> {
    /** One may be an accident, and Spark starts another one. */
    static final int STARTS_MAX = 3;

    private static final Logger LOG = LoggerFactory.getLogger(FailedStarts.class);
    private static final String NAME = "plasmon-failed-starts";

    private final Set<String> failed = new HashSet<>();

    private FailedStarts(SparkEnv env) {
        super(env);
    }

    /** Listens in the driver, as long as its application runs. */
    static void listen(SparkEnv env) {
        env.rpcEnv().setupEndpoint(NAME, new FailedStarts(env));
    }

    /** Tells the driver why this executor cannot join. */
    static void report(SparkConf conf, String reason) {
        String[] message = {conf.get("spark.executor.id", "unknown"), reason};
        SparkEnv known = SparkEnv.get();
        if (known != null) {
            report(conf, message, known.rpcEnv());
            return;
        }
        // Spark 3.5 makes the shuffle manager before the environment is known.
        SecurityManager security = new SecurityManager(
                conf, Option.empty(), SecurityManager$.MODULE$.$lessinit$greater$default$3());
        RpcEnv own = RpcEnv$.MODULE$.create(NAME, "localhost", -1, conf, security, true);
        try {
            report(conf, message, own);
        } finally {
            own.shutdown();
        }
    }

    private static void report(SparkConf conf, String[] message, RpcEnv rpc) {
        try {
            RpcUtils.makeDriverRef(NAME, conf, rpc).askSync(message, ClassTag$.MODULE$.Object());
        } catch (RuntimeException error) {
            // This executor's log has the reason all the same.
            LOG.warn("cannot tell the driver that this executor cannot start", error);
        }
    }

    @Override
    String[] taken(Object message) {
        return message instanceof String[] words && words.length == 2 ? words : null;
    }

    @Override
    Object answer(String[] words) {
        return true;
    }

    @Override
    void answered(String[] words) {
        String sentence = add(words[0], words[1]);
        if (sentence != null && !isAnyWorking()) {
            JobFailures.failRunning(sentence);
        }
    }

    /** The sentence to end with, once there are too many; else null. */
    private String add(String executor, String reason) {
        failed.add(executor);
        LOG.warn("executor {} cannot start: {}", executor, reason);
        return failed.size() < STARTS_MAX
                ? null
                : "executors cannot start: " + failed.size() + " failed and none works. Executor "
                        + executor + " said: " + reason;
    }

    /** An executor that works has a block manager. */
    private boolean isAnyWorking() {
        Iterator<BlockManagerId> managers =
                env.blockManager().master().getMemoryStatus().keysIterator();
        while (managers.hasNext()) {
            BlockManagerId manager = managers.next();
            if (!manager.isDriver() && !failed.contains(manager.executorId())) {
                return true;
            }
        }
        return false;
    }
}
