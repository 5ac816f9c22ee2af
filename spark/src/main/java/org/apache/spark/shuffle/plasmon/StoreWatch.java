package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.net.ConnectException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;

import org.plasmon.shuffle.NativeStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver's look at whether the application's own store still lives.
 *
 * <pre>
 * socket refuses ─► daemon and keeper are dead ─► another store at the same socket
 *                                                  └─► connections go on with it; what was in the
 *                                                      dead one is missed and made again
 * third death within a minute ─► every job of the application ends, with a sentence
 * </pre>
 *
 * <p>While either process lives, the socket is held: the keeper has it, too. So a daemon that is
 * being replaced by its keeper is never taken for a dead store.
 */
final class StoreWatch {
    /** This many deaths within a minute have a cause that another store does not mend. */
    static final int DEATHS_MAX = 3;

    /** In nanoseconds. */
    static final long DEATHS_WITHIN_NS = 60_000_000_000L;

    /** How often to look, in milliseconds. */
    private static final long STEP_MS = 500;

    private static final Logger LOG = LoggerFactory.getLogger(StoreWatch.class);

    private final EmbeddedStore embedded;
    private final NativeStore store;
    private final DeathCounter deaths = new DeathCounter();
    private final Thread thread;
    private volatile boolean stopped;

    private StoreWatch(EmbeddedStore embedded, NativeStore store) {
        this.embedded = embedded;
        this.store = store;
        this.thread = new Thread(this::run, "plasmon-store-watch");
        this.thread.setDaemon(true);
    }

    /** Watches until it is stopped, or the store has died too often. */
    static StoreWatch start(EmbeddedStore embedded, NativeStore store) {
        StoreWatch watch = new StoreWatch(embedded, store);
        watch.thread.start();
        return watch;
    }

    /** Returns when no store will be started any more. */
    void stop() {
        stopped = true;
        thread.interrupt();
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        String why = "its processes were killed";
        while (!stopped) {
            try {
                Thread.sleep(STEP_MS);
            } catch (InterruptedException toStop) {
                return;
            }
            if (isHeld(embedded.socket())) {
                continue;
            }
            if (deaths.add(System.nanoTime())) {
                JobFailures.failAll("the application's store at " + embedded.socket() + " ended "
                        + DEATHS_MAX + " times within a minute, daemon and keeper (" + why
                        + "): the shuffle has no store. The system's log says whether memory ran "
                        + "out (`dmesg`); spark.plasmon.store.bytes limits the store");
                return;
            }
            why = replace(why);
        }
    }

    /** Starts another store; why that failed, else what was known before. */
    private String replace(String why) {
        LOG.error("the application's store at {} is gone, daemon and keeper; another one is "
                + "started, and the map outputs that were in it are made again", embedded.socket());
        try {
            embedded.restart();
            // The connection says again whose the namespace is.
            long pid = store.figures().pid();
            LOG.warn("the application goes on with another store, process {}", pid);
            return why;
        } catch (IOException | RuntimeException error) {
            LOG.error("the application's store did not start again", error);
            return "another one did not start: " + error.getMessage();
        }
    }

    /**
     * Whether a process holds the socket. It keeps packets apart, so the kernel refuses this
     * connection with another error than that of a socket that is dead, and no daemon is disturbed.
     */
    private static boolean isHeld(Path socket) {
        try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            channel.configureBlocking(false);
            channel.connect(UnixDomainSocketAddress.of(socket));
            return true;
        } catch (ConnectException dead) {
            return false;
        } catch (IOException other) {
            return Files.exists(socket);
        }
    }

    /** When the store died; the times are those of a clock that never goes back. */
    static final class DeathCounter {
        private final Deque<Long> times = new ArrayDeque<>();

        /** Whether this is one death too many. */
        boolean add(long now) {
            while (!times.isEmpty() && now - times.peekFirst() >= DEATHS_WITHIN_NS) {
                times.removeFirst();
            }
            times.addLast(now);
            return times.size() >= DEATHS_MAX;
        }
    }
}
