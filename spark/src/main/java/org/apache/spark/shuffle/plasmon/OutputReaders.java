package org.apache.spark.shuffle.plasmon;

import java.util.ArrayList;
import java.util.List;

import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.RemoteOutputs;
import org.plasmon.shuffle.SectionReader;
import org.plasmon.shuffle.Sections;
import org.plasmon.shuffle.StoreException;

/**
 * Opens the outputs that a reduce task reads, one after the other: those of this node in its store,
 * those of other nodes of the pool as they come.
 */
final class OutputReaders implements AutoCloseable {
    private final NativeStore store;
    private final int shuffle;
    private final MapBlocks[] outputs;
    /** {@code null} in the store of one machine. */
    private final Pool pool;
    private SectionReader local;
    private RemoteOutputs remote;

    /**
     * What a reader in a pool needs to know.
     *
     * @param slot the number of this node
     * @param source what the outputs have in common
     */
    record Pool(int slot, RemoteOutputs.Source source) {}

    OutputReaders(NativeStore store, int shuffle, MapBlocks[] outputs, Pool pool) {
        this.store = store;
        this.shuffle = shuffle;
        this.outputs = outputs;
        this.pool = pool;
    }

    /** Whether an output is on another node. */
    boolean isRemote(int output) {
        OutputPlace place = pool == null ? null : outputs[output].place();
        return place != null && place.slot() != pool.slot();
    }

    /** The sections of the next output. */
    Sections open(int output) throws StoreException {
        if (isRemote(output)) {
            if (remote == null) {
                remote = new RemoteOutputs(store, pool.source(), remoteOutputs());
            }
            return remote.open();
        }
        MapBlocks blocks = outputs[output];
        local = local == null
                ? new SectionReader(store, shuffle, blocks.mapId(), blocks.partitions())
                : local.followedBy(blocks.mapId(), blocks.partitions());
        return local;
    }

    /**
     * An output of this node that its store has lost, from the nodes that have a copy; {@code null}
     * where there are none.
     */
    Sections openElsewhere(int output) throws StoreException {
        if (pool == null || isRemote(output) || outputs[output].place() == null) {
            return null;
        }
        List<RemoteOutputs.Output> one = List.of(wanted(outputs[output]));
        return new RemoteOutputs(store, pool.source(), one).open();
    }

    private List<RemoteOutputs.Output> remoteOutputs() {
        List<RemoteOutputs.Output> found = new ArrayList<>();
        for (int output = 0; output < outputs.length; output++) {
            if (isRemote(output)) {
                found.add(wanted(outputs[output]));
            }
        }
        return found;
    }

    /** Partitions that Spark does not list between the first and the last one are empty. */
    private static RemoteOutputs.Output wanted(MapBlocks blocks) {
        int[] partitions = blocks.partitions();
        OutputPlace place = blocks.place();
        return new RemoteOutputs.Output(blocks.mapId(), place.slot(), place.runs(),
                partitions[0], partitions[partitions.length - 1]);
    }

    @Override
    public void close() {
        if (remote != null) {
            remote.close();
            remote = null;
        }
        if (local != null) {
            local.close();
            local = null;
        }
    }
}
