package org.apache.spark.shuffle.plasmon;

import java.util.List;

import org.apache.spark.SparkConf;
import org.apache.spark.util.Utils;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** How driver and executors of an application join a pool of several nodes. */
final class PoolApplication {
    private static final Logger LOG = LoggerFactory.getLogger(PoolApplication.class);

    private static final int COPIES_OF_SEVERAL_NODES = 2;

    private PoolApplication() {}

    /**
     * Adopts a namespace of the pool, with the application's limit, and tells executors; what is
     * in it ends with the driver.
     */
    static Application drive(SparkConf conf, StoreChoice choice, String number)
            throws StoreException {
        List<NativeStore.PoolNode> nodes = nodes(conf, choice.socket());
        long up = nodes.stream().filter(NativeStore.PoolNode::isUp).count();
        int wanted = Settings.copies(conf);
        int copies = wanted > 0 ? wanted : (int) Math.min(up, COPIES_OF_SEVERAL_NODES);
        String namespace = choice.pool() + "-" + number;
        PoolMember pool = join(conf, choice.socket(), namespace, Math.max(1, copies));
        try {
            pool.store().adopt(Settings.quotaBytes(conf));
            conf.set(Settings.NAMESPACE, namespace);
            conf.set(Settings.POOL_COPIES, String.valueOf(pool.copies()));
            conf.set(Settings.POOL_NODE, nodeOf(pool.slot(), nodes));
        } catch (StoreException error) {
            pool.store().close();
            throw error;
        }
        LOG.info("the shuffle is in a pool of {} nodes, in the namespace {}, with {} copies", up,
                namespace, pool.copies());
        return Application.pooled(pool, true);
    }

    private static List<NativeStore.PoolNode> nodes(SparkConf conf, String socket)
            throws StoreException {
        NativeStore store = NativeStore.connect(
                socket, "spark driver", "spark", Settings.timeoutMs(conf), false);
        try {
            return store.nodes();
        } finally {
            store.close();
        }
    }

    /** A node as driver and executors both see it. */
    private static String nodeOf(int slot, List<NativeStore.PoolNode> nodes) {
        return nodes.stream()
                .filter(node -> node.slot() == slot)
                .map(node -> slot + " " + node.name())
                .findFirst()
                .orElse(slot + " ");
    }

    /** Joins with the store of the executor's machine. */
    static Application execute(SparkConf conf, String namespace) throws StoreException {
        String socket = StoreChoice.socketOfExecutor(conf);
        PoolMember pool;
        List<NativeStore.PoolNode> nodes;
        try {
            pool = join(conf, socket, namespace, conf.getInt(Settings.POOL_COPIES, 1));
            nodes = pool.store().nodes();
        } catch (StoreException error) {
            throw new StoreException(error.key(), "an executor on " + Utils.localHostName()
                    + " needs a node of the application's pool on its machine, and there is none "
                    + "with the store at " + socket + ". Start one there (`plasmon start "
                    + "--cluster ..`; with `--pool-weight 0` it keeps nothing), or name its socket "
                    + "with PLASMON_SOCKET in the worker's environment: " + error.getMessage());
        }
        String driver = conf.get(Settings.POOL_NODE, "");
        int slot = Integer.parseInt(driver.substring(0, driver.indexOf(' ')));
        if (!nodeOf(slot, nodes).equals(driver)) {
            pool.store().close();
            throw new IllegalStateException("the store at " + socket + " belongs to another pool "
                    + "than the driver's, in which the driver is node " + driver + ": start both "
                    + "with the same --cluster");
        }
        return Application.pooled(pool, false);
    }

    /** What this process alone needs is named after it, in its own store. */
    private static PoolMember join(SparkConf conf, String socket, String namespace, int copies)
            throws StoreException {
        String scratch = namespace.substring(1) + "-" + ProcessHandle.current().pid() + "-"
                + Long.toHexString(System.nanoTime());
        NativeStore store = NativeStore.join(
                socket,
                "spark " + conf.get("spark.executor.id", "driver"),
                new NativeStore.Pool(namespace, scratch, copies, Settings.quotaBytes(conf)),
                Settings.timeoutMs(conf));
        return new PoolMember(store, copies, Settings.awaitsCopies(conf));
    }
}
