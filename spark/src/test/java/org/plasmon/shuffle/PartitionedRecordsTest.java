package org.plasmon.shuffle;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;

import org.junit.jupiter.api.Test;

/** Records that came in any order leave by partition. */
class PartitionedRecordsTest {
    private static final int PARTITIONS = 13;

    @Test
    void recordsAreOrderedByPartitionAndKeepTheirOrderInIt() throws IOException {
        for (int seed = 0; seed < 20; seed++) {
            check(new Random(seed), "seed " + seed);
        }
    }

    private static void check(Random random, String seed) throws IOException {
        RecordBuffer buffer = new RecordBuffer(bytes -> true, bytes -> { });
        PartitionedRecords rows = new PartitionedRecords(buffer, PARTITIONS, bytes -> true);
        for (int round = 0; round < 2; round++) {
            ByteArrayOutputStream[] expected = new ByteArrayOutputStream[PARTITIONS];
            for (int partition = 0; partition < PARTITIONS; partition++) {
                expected[partition] = new ByteArrayOutputStream();
            }
            int count = random.nextInt(3000);
            for (int row = 0; row < count; row++) {
                byte[] bytes = new byte[random.nextInt(40)];
                random.nextBytes(bytes);
                int partition = random.nextInt(PARTITIONS);
                buffer.write(bytes, 0, bytes.length);
                rows.add(partition);
                expected[partition].write(bytes);
            }
            rows.arrange();
            assertEquals(count, rows.rows(), seed);
            for (int partition = 0; partition < PARTITIONS; partition++) {
                byte[] found = new byte[rows.bytes(partition)];
                rows.copyTo(partition, ByteBuffer.wrap(found), 0);
                assertArrayEquals(expected[partition].toByteArray(), found, seed);
                byte[] head = new byte[1000];
                int copied = rows.copyHead(partition, head);
                assertEquals(Math.min(head.length, found.length), copied, seed);
                assertArrayEquals(Arrays.copyOf(found, copied), Arrays.copyOf(head, copied), seed);
                ByteArrayOutputStream written = new ByteArrayOutputStream();
                rows.writeTo(partition, written);
                assertArrayEquals(found, written.toByteArray(), seed);
            }
            rows.clear();
        }
    }

    @Test
    void refusedMemoryIsFeltUntilItIsEmptied() {
        RecordBuffer buffer = new RecordBuffer(bytes -> false, bytes -> { });
        PartitionedRecords rows = new PartitionedRecords(buffer, PARTITIONS, bytes -> true);
        assertFalse(rows.isPressed());
        buffer.write(new byte[100], 0, 100);
        rows.add(2);
        assertTrue(rows.isPressed());
        rows.clear();
        assertFalse(rows.isPressed());
        buffer.write(new byte[100], 0, 100);
        assertFalse(rows.isPressed(), "memory that is there is not asked for again");
    }
}
