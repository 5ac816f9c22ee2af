package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.SparkEnv;
import org.apache.spark.rdd.RDD;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.StoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * This process's part in one Spark application: its connection to the store of its machine.
 *
 * <pre>
 * one machine
 *   driver:   starts a store, or takes the one that is named ─► adopts a namespace in it, which
 *             ends with the driver ─► writes socket, namespace and machine into the configuration
 *             that every executor is given
 *   executor: reads them ─► refuses another machine ─► connects
 * a pool of several nodes
 *   driver:   takes the store of its node ─► adopts a namespace of the pool ─► writes namespace,
 *             copies and its node into the configuration
 *   executor: takes the store of its own node ─► refuses another pool ─► joins
 * </pre>
 */
final class Application {
    private static final Logger LOG = LoggerFactory.getLogger(Application.class);

    /** Names this boot of this machine, also from within containers. */
    private static final Path MACHINE = Path.of("/proc/sys/kernel/random/boot_id");

    private static volatile Application current;

    private final NativeStore store;
    /** Of the driver that started it, else null. */
    private final EmbeddedStore embedded;
    /** Of the driver that started a store, else null. */
    private final StoreWatch watch;
    private final boolean isDriver;
    /** {@code null} in the store of one machine. */
    private final PoolMember pool;
    /** Of the driver, once it had a shuffle. */
    private SurvivingOutputs surviving;
    /** Of the driver, once it had a shuffle. */
    private UnusedOutputs unused;
    private FinishedShuffles finished;
    private final AtomicBoolean observed = new AtomicBoolean();
    /** Of the driver: where the store is and how large it may become. */
    private String place = "";

    private Application(
            NativeStore store, EmbeddedStore embedded, PoolMember pool, boolean isDriver) {
        this.store = store;
        this.embedded = embedded;
        this.pool = pool;
        this.watch = embedded == null ? null : StoreWatch.start(embedded, store);
        this.isDriver = isDriver;
    }

    /** The application of this process, once its shuffle manager was made. */
    static Application current() {
        Application application = current;
        if (application == null) {
            throw new IllegalStateException(
                    "Plasmon's shuffle manager is not running in this process; set "
                            + "spark.shuffle.manager=" + PlasmonShuffleManager.class.getName());
        }
        return application;
    }

    NativeStore store() {
        return store;
    }

    /** Its node in a pool; {@code null} in the store of one machine. */
    PoolMember pool() {
        return pool;
    }

    /** Joins as driver or executor; an error names what is missing. */
    static Application join(SparkConf conf, boolean isDriver) {
        try {
            current = isDriver ? drive(conf) : execute(conf);
            return current;
        } catch (IOException | RuntimeException | LinkageError error) {
            String reason = "Plasmon's shuffle cannot start: " + error.getMessage();
            if (!isDriver) {
                FailedStarts.report(conf, reason);
            }
            throw new IllegalStateException(reason, error);
        }
    }

    private static Application drive(SparkConf conf) throws IOException {
        JobFailures.forget();
        byte[] random = new byte[8];
        new SecureRandom().nextBytes(random);
        String number = HexFormat.of().formatHex(random);
        StoreChoice choice = StoreChoice.of(conf);
        if (choice.isPooled() || !choice.socket().isEmpty()) {
            EmbeddedStore.warnOfSizes(conf);
        }
        return choice.isPooled()
                ? PoolApplication.drive(conf, choice, number)
                : driveHere(conf, choice.socket(), "spark-" + number);
    }

    private static Application driveHere(SparkConf conf, String running, String namespace)
            throws IOException {
        EmbeddedStore embedded = running.isEmpty() ? EmbeddedStore.start(conf) : null;
        String socket = embedded == null ? running : embedded.socket().toString();
        conf.set(Settings.SOCKET, socket);
        conf.set(Settings.NAMESPACE, namespace);
        conf.set(Settings.MACHINE, machine());
        try {
            NativeStore store = connect(conf, "spark driver");
            store.adopt(Settings.quotaBytes(conf));
            LOG.info("the shuffle is in the store at {}, in the namespace {}", socket, namespace);
            Application application = new Application(store, embedded, null, true);
            application.place = "Store " + socket + ", namespace " + namespace
                    + (embedded == null ? "" : ": " + embedded.plan().sentence());
            return application;
        } catch (StoreException error) {
            if (embedded != null) {
                embedded.forget();
            }
            throw error;
        }
    }

    /** An application in a pool, once its process has joined. */
    static Application pooled(PoolMember pool, boolean isDriver) {
        Application application = new Application(pool.store(), null, pool, isDriver);
        application.place = "The shuffle is on a pool; this is the store of the driver's node.";
        return application;
    }

    private static Application execute(SparkConf conf) throws IOException {
        String namespace = conf.get(Settings.NAMESPACE, "");
        if (namespace.isEmpty()) {
            throw new IllegalStateException(
                    "the driver does not use Plasmon's shuffle, but this executor does; set "
                            + "spark.shuffle.manager for the application, not for executors");
        }
        return namespace.startsWith("@")
                ? PoolApplication.execute(conf, namespace)
                : executeHere(conf);
    }

    private static Application executeHere(SparkConf conf) throws IOException {
        String driver = conf.get(Settings.MACHINE);
        String here = machine();
        if (!driver.equals(here)) {
            throw new IllegalStateException(
                    "this executor runs on another machine than the driver (boot " + here
                            + ", driver " + driver + "). Without a pool Plasmon's shuffle is in "
                            + "the memory of one machine: run all executors there, or start the "
                            + "stores of the machines as a pool (`plasmon start --cluster ..`) and "
                            + "set " + Settings.POOL + "=@spark");
        }
        return new Application(connect(conf, "spark executor"), null, null, false);
    }

    private static NativeStore connect(SparkConf conf, String client) throws StoreException {
        return NativeStore.connect(
                conf.get(Settings.SOCKET),
                client,
                conf.get(Settings.NAMESPACE),
                Settings.timeoutMs(conf),
                Settings.quotaBytes(conf) > 0);
    }

    private static String machine() throws IOException {
        return Files.readString(MACHINE).trim();
    }

    /**
     * Begins to serve executors, with the driver's first shuffle: before, Spark 3.5 has no
     * environment yet, and Spark 4 no shuffle manager.
     *
     * @param rdd whose partitions write the shuffle
     * @param partitions of the shuffle
     */
    synchronized void listen(int shuffle, RDD<?> rdd, int partitions) {
        if (unused == null) {
            SparkEnv env = SparkEnv.get();
            SparkContext context = SparkContext$.MODULE$.getActive().get();
            OutputCheck check = new OutputCheck(env.conf(), store, pool);
            surviving = SurvivingOutputs.listen(context, env, check, pool);
            LostOutputs.listen(env, check, surviving);
            RemovedWorkers.listen(context, surviving);
            unused = UnusedOutputs.listen(context, store, pool != null);
            finished = FinishedShuffles.listen(context, store, pool != null);
            StoreView.ofDriver(context, store, finished, place);
        }
        surviving.register(shuffle, rdd, partitions);
    }

    /** Shows what an executor does with the store, from its first task on. */
    void observe() {
        if (!isDriver && observed.compareAndSet(false, true)) {
            StoreView.ofExecutor(store);
        }
    }

    /** Deletes what any attempt wrote for a shuffle. */
    void removeShuffle(int shuffle) {
        try {
            int objects = store.deleteShuffle(shuffle);
            forget(shuffle);
            LOG.debug("shuffle {} is removed: {} objects", shuffle, objects);
        } catch (StoreException error) {
            // Spark cleans up in the background and reports no error. The remaining objects are
            // deleted with the application.
            LOG.warn("shuffle {} was not removed", shuffle, error);
        }
    }

    private synchronized void forget(int shuffle) {
        if (unused != null) {
            unused.forget(shuffle);
            surviving.forget(shuffle);
            finished.forget(shuffle);
        }
    }

    private synchronized void stopDeleting() {
        if (unused != null) {
            unused.stop();
        }
    }

    /** Leaves; the driver deletes everything of the application. */
    void leave() {
        if (current == this) {
            current = null;
        }
        stopDeleting();
        try {
            if (embedded != null) {
                watch.stop();
                store.shutdown();
            } else if (isDriver && pool == null) {
                store.deleteApplication();
            }
        } catch (StoreException error) {
            LOG.warn("the application's shuffle data was not removed", error);
        }
        store.close();
        if (embedded != null) {
            embedded.forget();
        }
    }
}
