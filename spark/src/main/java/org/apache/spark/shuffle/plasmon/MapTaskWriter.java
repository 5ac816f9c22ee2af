package org.apache.spark.shuffle.plasmon;

import java.io.UncheckedIOException;

import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.ShuffleWriter;
import org.plasmon.shuffle.StoreException;
import scala.Option;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** What every writer has, and how it ends. */
abstract class MapTaskWriter<K, V> extends ShuffleWriter<K, V> {
    /** The class tag of keys and values for serialisers: any. */
    static final ClassTag<Object> ANY = ClassTag$.MODULE$.Object();

    final MapTask<K, V> task;
    private boolean stopped;

    MapTaskWriter(MapTask<K, V> task) {
        this.task = task;
    }

    /** Spark stops a writer that failed a second time; only the first one counts. */
    @Override
    public final Option<MapStatus> stop(boolean success) {
        if (stopped) {
            return Option.empty();
        }
        stopped = true;
        try {
            return Option.apply(task.finish(success));
        } catch (StoreException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public final long[] getPartitionLengths() {
        return task.partitionBytes();
    }
}
