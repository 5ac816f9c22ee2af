package org.plasmon.shuffle;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * How long a reduce task takes for one block: a program, which `bench spark` runs.
 *
 * <p>As many map outputs as partitions, with blocks of about 300 bytes; a second connection reads
 * all of them partition by partition, as reduce tasks do. Measured is what stands between a task
 * and its bytes: finding the run, pinning it, checking the block, and copying it to the heap.
 */
final class BlockReads {
    private static final int BLOCK_BYTES = 300;
    private static final int WARM_UP_PARTITIONS = 20;

    private BlockReads() {}

    /** Prints the median and the 99th percentile in nanoseconds; the argument is how many maps. */
    public static void main(String[] arguments) throws IOException {
        int maps = Integer.parseInt(arguments[0]);
        try (StoreFixture fixture = new StoreFixture("1g")) {
            int[] lengths = new int[maps];
            Arrays.fill(lengths, BLOCK_BYTES);
            for (int map = 0; map < maps; map++) {
                MapOutput output =
                        new MapOutput(fixture.store, new RunId(1, map, 0), maps, 1_000);
                output.seal(StoreFixture.content(map, lengths), true);
            }
            try (NativeStore reader = fixture.connect("spark-test", false)) {
                for (int partition = 0; partition < WARM_UP_PARTITIONS; partition++) {
                    read(reader, maps, partition % maps);
                }
                long[] times = new long[maps * maps];
                for (int partition = 0; partition < maps; partition++) {
                    long[] some = read(reader, maps, partition);
                    System.arraycopy(some, 0, times, partition * maps, maps);
                }
                Arrays.sort(times);
                System.out.println("p50_ns=" + times[times.length / 2]
                        + " p99_ns=" + times[times.length * 99 / 100]
                        + " max_ns=" + times[times.length - 1]);
            }
        }
    }

    /** What each block of a partition took. */
    private static long[] read(NativeStore store, int maps, int partition) throws IOException {
        long[] times = new long[maps];
        byte[] target = new byte[BLOCK_BYTES];
        int[] wanted = {partition};
        for (int map = 0; map < maps; map++) {
            long started = System.nanoTime();
            try (SectionReader reader = new SectionReader(store, 1, map, wanted)) {
                ByteBuffer section = reader.next();
                section.get(target);
            }
            times[map] = System.nanoTime() - started;
        }
        return times;
    }
}
