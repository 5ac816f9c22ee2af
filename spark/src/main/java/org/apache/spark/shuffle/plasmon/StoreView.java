package org.apache.spark.shuffle.plasmon;

import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.ui.SparkUI;
import org.plasmon.shuffle.NativeStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/** What Spark shows of the store: metrics in every process, and a tab of the driver's UI. */
final class StoreView {
    private static final Logger LOG = LoggerFactory.getLogger(StoreView.class);

    private StoreView() {}

    /** From the first shuffle on. */
    static void ofDriver(
            SparkContext context, NativeStore store, FinishedShuffles shuffles, String place) {
        StoreFigures figures = new StoreFigures(store);
        register(new StoreMetrics(store.roomWaits(), figures));
        Option<SparkUI> ui = context.ui();
        if (ui.isEmpty()) {
            return;
        }
        try {
            StorePage.attach(ui.get(), place, figures, store.roomWaits(), shuffles::list);
        } catch (RuntimeException | LinkageError error) {
            LOG.warn("Spark's UI has no tab for the store", error);
        }
    }

    static void ofExecutor(NativeStore store) {
        register(new StoreMetrics(store.roomWaits(), null));
    }

    /** A shuffle without figures is better than none. */
    private static void register(StoreMetrics metrics) {
        try {
            SparkEnv.get().metricsSystem().registerSource(metrics);
        } catch (RuntimeException | LinkageError error) {
            LOG.warn("Spark's metrics have no figures of the store", error);
        }
    }
}
