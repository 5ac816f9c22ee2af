package org.apache.spark.shuffle.plasmon;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Does what may take long, one thing after the other, on a thread of its own. The thread ends when
 * there is nothing to do, and keeps no process alive.
 */
final class Background {
    private static final long IDLE_S = 10;

    private final ThreadPoolExecutor thread;

    /** @param name of the thread */
    Background(String name) {
        thread = new ThreadPoolExecutor(
                1, 1, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), work -> {
                    Thread made = new Thread(work, name);
                    made.setDaemon(true);
                    return made;
                });
        thread.allowCoreThreadTimeOut(true);
    }

    /** Returns at once; after {@link #stop} nothing is done. */
    void run(Runnable work) {
        try {
            thread.execute(work);
        } catch (RejectedExecutionException stopped) {
            // There is nothing to do it for any more.
        }
    }

    /** What has not begun is not done. */
    void stop() {
        thread.shutdownNow();
    }

    boolean isStopped() {
        return thread.isShutdown();
    }
}
