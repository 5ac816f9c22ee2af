package org.apache.spark.shuffle.plasmon;

import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Ends the jobs of an application that cannot go on, with the reason as their error. The
 * application itself ends as with every failed job: when it does not catch that.
 */
final class JobFailures {
    private static final Logger LOG = LoggerFactory.getLogger(JobFailures.class);

    private static volatile String lasting;

    private JobFailures() {}

    /** The jobs that run fail, and every later one. */
    static void failAll(String sentence) {
        lasting = sentence;
        failRunning(sentence);
    }

    /** The jobs that run fail, or the application while it starts. */
    static void failRunning(String sentence) {
        LOG.error(sentence);
        Option<SparkContext> context = SparkContext$.MODULE$.getActive();
        if (context.isEmpty()) {
            StartFailure.fail(sentence);
        } else if (context.get().taskScheduler() instanceof TaskSchedulerImpl tasks) {
            try {
                tasks.error(sentence);
            } catch (Exception noTasks) {
                LOG.debug("no task was running or waiting", noTasks);
            }
        }
    }

    /** Listens in the driver: the error of {@link #failAll} also fails jobs that begin later. */
    static final class LaterJobs extends SparkListener {
        /** From here on the task's job is known to the scheduler. */
        @Override
        public void onTaskStart(SparkListenerTaskStart event) {
            String sentence = lasting;
            if (sentence != null) {
                failRunning(sentence);
            }
        }
    }

    /** Throws the error of {@link #failAll} in this process. */
    static void check() {
        if (lasting != null) {
            throw new IllegalStateException(lasting);
        }
    }

    /** A new application in the same process begins without it. */
    static void forget() {
        lasting = null;
    }
}
