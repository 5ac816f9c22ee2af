package org.apache.spark.shuffle.plasmon;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.ShuffleBlockId;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * The partitions that a reduce task takes from the output of one attempt at a map task, as Spark's
 * driver lists them; partitions without bytes are not listed.
 */
record MapBlocks(BlockManagerId location, long mapId, int mapIndex, int[] partitions) {
    /** Where in a pool the output is; {@code null} in the store of one machine. */
    OutputPlace place() {
        return OutputPlace.of(location);
    }

    /**
     * Gathers what the map output tracker gives block by block, in the order of the map tasks. The
     * tracker groups outputs in a hash map by their location, which is another one for each output
     * here; in that order sums of floats and lists of values would change from run to run.
     */
    static MapBlocks[] of(
            Iterator<Tuple2<BlockManagerId, Seq<Tuple3<BlockId, Object, Object>>>> listed) {
        List<MapBlocks> outputs = new ArrayList<>();
        while (listed.hasNext()) {
            Tuple2<BlockManagerId, Seq<Tuple3<BlockId, Object, Object>>> of = listed.next();
            gather(of._1(), of._2().iterator(), outputs);
        }
        outputs.sort(Comparator.comparingInt(MapBlocks::mapIndex));
        return outputs.toArray(new MapBlocks[0]);
    }

    private static void gather(
            BlockManagerId location,
            Iterator<Tuple3<BlockId, Object, Object>> blocks,
            List<MapBlocks> outputs) {
        int[] partitions = new int[4];
        int count = 0;
        ShuffleBlockId block = null;
        int mapIndex = -1;
        while (blocks.hasNext()) {
            Tuple3<BlockId, Object, Object> entry = blocks.next();
            ShuffleBlockId next = (ShuffleBlockId) entry._1();
            if (block != null && next.mapId() != block.mapId()) {
                outputs.add(new MapBlocks(
                        location, block.mapId(), mapIndex, Arrays.copyOf(partitions, count)));
                count = 0;
            }
            if (count == partitions.length) {
                partitions = Arrays.copyOf(partitions, 2 * count);
            }
            partitions[count++] = next.reduceId();
            block = next;
            mapIndex = (Integer) entry._3();
        }
        if (block != null) {
            outputs.add(new MapBlocks(
                    location, block.mapId(), mapIndex, Arrays.copyOf(partitions, count)));
        }
    }
}
