package org.apache.spark.shuffle.plasmon;

import org.apache.spark.SparkConf;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.RemoteOutputs;
import org.plasmon.shuffle.StoreException;

/**
 * This process's node in a pool of several, and how the application's outputs are kept there.
 *
 * @param store the store of the node
 * @param copies how many nodes keep each run
 * @param awaitsCopies whether a map task has committed only when its output has all copies
 */
record PoolMember(NativeStore store, int copies, boolean awaitsCopies) {
    /** The number of this node. */
    int slot() throws StoreException {
        return store.slot();
    }

    /** What all outputs of a shuffle have in common. */
    RemoteOutputs.Source source(SparkConf conf, int shuffle, int partitions) {
        return new RemoteOutputs.Source(shuffle, partitions, copies, Settings.bytesAhead(conf),
                Settings.timeoutMs(conf));
    }
}
