package org.apache.spark.shuffle.plasmon;

import java.util.function.ToLongFunction;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import org.apache.spark.metrics.source.Source;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.RoomWaits;

/**
 * The source {@code plasmon} of Spark's metrics: in every process its own waits for room in the
 * store, and in the driver the store's figures as well.
 */
final class StoreMetrics implements Source {
    private final MetricRegistry registry = new MetricRegistry();

    /** @param figures null in an executor */
    StoreMetrics(RoomWaits waits, StoreFigures figures) {
        gauge("roomWaits", waits::count);
        gauge("roomWaitMs", waits::totalMs);
        if (figures != null) {
            figure("capacityBytes", figures, NativeStore.Figures::capacityBytes);
            figure("usedBytes", figures, NativeStore.Figures::usedBytes);
            figure("objects", figures, NativeStore.Figures::objects);
            figure("spilledBytes", figures, NativeStore.Figures::spilledBytes);
            figure("spilledObjects", figures, NativeStore.Figures::spilledObjects);
            figure("spillWrittenBytes", figures, NativeStore.Figures::spillWrittenBytes);
            figure("restoredBytes", figures, NativeStore.Figures::restoredBytes);
        }
    }

    private void figure(
            String name, StoreFigures figures, ToLongFunction<NativeStore.Figures> which) {
        gauge(name, () -> which.applyAsLong(figures.get()));
    }

    private void gauge(String name, Gauge<Long> gauge) {
        registry.register(name, gauge);
    }

    @Override
    public String sourceName() {
        return "plasmon";
    }

    @Override
    public MetricRegistry metricRegistry() {
        return registry;
    }
}
