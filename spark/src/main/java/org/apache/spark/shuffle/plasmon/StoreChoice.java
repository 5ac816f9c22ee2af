package org.apache.spark.shuffle.plasmon;

import java.util.Locale;

import org.apache.spark.SparkConf;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.StoreException;

/**
 * Which store a driver takes: one of the application's own, a running one, or that of a node of a
 * pool.
 *
 * @param socket of a running store; empty for one of the application's own
 * @param pool what the namespace in a pool begins with; empty for the store of one machine
 */
record StoreChoice(String socket, String pool) {
    /** The environment variable that names the store of a machine. */
    private static final String SOCKET = "PLASMON_SOCKET";

    /** What namespaces begin with where the setting names nothing else. */
    private static final String PREFIX = "@spark";

    /** Whether the application is in a pool of several nodes. */
    boolean isPooled() {
        return !pool.isEmpty();
    }

    /** Chooses as the settings say; an error names what is missing. */
    static StoreChoice of(SparkConf conf) throws StoreException {
        String named = conf.get(Settings.STORE, "");
        String wanted = Settings.pool(conf);
        boolean isLocal = conf.get("spark.master", "").toLowerCase(Locale.ROOT).startsWith("local");
        if (wanted.equals(Settings.POOL_NONE) || wanted.equals(Settings.POOL_AUTO) && isLocal) {
            return new StoreChoice(named, "");
        }
        String socket = socketOfMachine(named);
        if (wanted.equals(Settings.POOL_AUTO)) {
            return isInPool(socket)
                    ? new StoreChoice(socket, PREFIX)
                    : new StoreChoice(named, "");
        }
        if (poolOf(socket, Settings.timeoutMs(conf)).isEmpty()) {
            throw new IllegalStateException(Settings.POOL + "=" + wanted + ": the store at "
                    + socket + " belongs to no pool; start it with `plasmon start --cluster ..`, "
                    + "or set " + Settings.POOL + "=none");
        }
        return new StoreChoice(socket, wanted);
    }

    /**
     * The store of an executor's machine, in a pool: what the process's environment names, else
     * what the application does.
     */
    static String socketOfExecutor(SparkConf conf) throws StoreException {
        String here = System.getenv(SOCKET);
        String named = conf.get(Settings.STORE, "");
        if (here != null && !here.isEmpty()) {
            return here;
        }
        return named.isEmpty() ? NativeStore.defaultSocket() : named;
    }

    private static String socketOfMachine(String named) throws StoreException {
        return named.isEmpty() ? NativeStore.defaultSocket() : named;
    }

    private static boolean isInPool(String socket) {
        try {
            return !NativeStore.poolOf(socket, 0).isEmpty();
        } catch (StoreException noStore) {
            return false;
        }
    }

    private static String poolOf(String socket, long timeoutMs) throws StoreException {
        try {
            return NativeStore.poolOf(socket, timeoutMs);
        } catch (StoreException error) {
            throw new StoreException(error.key(), "the driver needs a node of the pool on its "
                    + "machine, with the store at " + socket + " (`plasmon start --cluster ..`; "
                    + "--pool-weight 0 for one that keeps nothing): " + error.getMessage());
        }
    }
}
