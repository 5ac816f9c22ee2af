package org.apache.spark.shuffle.plasmon;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/**
 * Ends the start of an application that waits for executors which cannot come.
 *
 * <pre>
 * new SparkContext ─► asks the scheduler's backend every 100 ms: are there enough executors?
 *                     └─► once a reason is known, the question fails with it, and so does the start
 * </pre>
 *
 * <p>With {@code spark.scheduler.minRegisteredResourcesRatio} the context of an application waits
 * for executors, for half a minute by default. No job is there yet that could fail.
 */
final class StartFailure {
    private StartFailure() {}

    /** Whether an application was starting, whose start fails now. */
    static boolean fail(String sentence) {
        SparkContext context = SparkShims.startingContext();
        if (context == null || !(context.taskScheduler() instanceof TaskSchedulerImpl tasks)) {
            return false;
        }
        // The context waits on this lock, and reads the backend again when it wakes.
        synchronized (tasks) {
            SchedulerBackend backend = tasks.backend();
            if (backend == null) {
                return false;
            }
            tasks.backend_$eq(unready(SchedulerBackend.class, backend, sentence));
            tasks.notifyAll();
        }
        return true;
    }

    /**
     * The same backend, which answers the question whether it is ready with a failure.
     *
     * @param type what Spark knows the backend as
     */
    static <T> T unready(Class<T> type, T backend, String sentence) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("isReady")) {
                        throw new IllegalStateException(sentence);
                    }
                    try {
                        return method.invoke(backend, arguments);
                    } catch (InvocationTargetException failed) {
                        throw failed.getCause();
                    }
                }));
    }
}
