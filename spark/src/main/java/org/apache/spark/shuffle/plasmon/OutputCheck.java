package org.apache.spark.shuffle.plasmon;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.MapStatus;
import org.plasmon.shuffle.MapOutput;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.RemoteOutputs;
import org.plasmon.shuffle.StoreException;

/** The driver's look whether outputs are where Spark believes them to be. */
final class OutputCheck {
    private final SparkConf conf;
    private final NativeStore store;
    private final PoolMember pool;

    /** @param pool {@code null} in the store of one machine */
    OutputCheck(SparkConf conf, NativeStore store, PoolMember pool) {
        this.conf = conf;
        this.store = store;
        this.pool = pool;
    }

    /** Whether each of some outputs of a shuffle is there, whole. */
    boolean[] areThere(int shuffle, int partitions, List<MapStatus> outputs)
            throws StoreException {
        boolean[] found = new boolean[outputs.size()];
        Map<Integer, RemoteOutputs.Output> pooled = new HashMap<>();
        for (int at = 0; at < found.length; at++) {
            MapStatus output = outputs.get(at);
            OutputPlace place = OutputPlace.of(output.location());
            if (isEmpty(output, partitions)) {
                // It was never in a store.
                found[at] = true;
            } else if (pool != null && place != null) {
                pooled.put(at, new RemoteOutputs.Output(
                        output.mapId(), place.slot(), place.runs(), 0, partitions - 1));
            } else {
                found[at] = MapOutput.isWhole(store, shuffle, output.mapId());
            }
        }
        if (!pooled.isEmpty()) {
            lookInPool(shuffle, partitions, pooled, found);
        }
        return found;
    }

    private void lookInPool(int shuffle, int partitions,
            Map<Integer, RemoteOutputs.Output> pooled, boolean[] found) throws StoreException {
        List<Integer> places = new ArrayList<>(pooled.keySet());
        List<RemoteOutputs.Output> outputs = places.stream().map(pooled::get).toList();
        boolean[] there =
                RemoteOutputs.areThere(store, pool.source(conf, shuffle, partitions), outputs);
        for (int at = 0; at < there.length; at++) {
            found[places.get(at)] = there[at];
        }
    }

    private static boolean isEmpty(MapStatus output, int partitions) {
        for (int partition = 0; partition < partitions; partition++) {
            if (output.getSizeForBlock(partition) > 0) {
                return false;
            }
        }
        return true;
    }
}
