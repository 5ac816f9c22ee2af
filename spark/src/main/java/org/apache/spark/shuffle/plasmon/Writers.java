package org.apache.spark.shuffle.plasmon;

import java.io.UncheckedIOException;

import org.apache.spark.scheduler.MapStatus;
import org.plasmon.shuffle.StoreException;
import scala.Option;

/** How every writer ends. */
final class Writers {
    private Writers() {}

    static Option<MapStatus> finish(MapTask<?, ?> task, boolean success) {
        try {
            return Option.apply(task.finish(success));
        } catch (StoreException error) {
            throw new UncheckedIOException(error);
        }
    }
}
