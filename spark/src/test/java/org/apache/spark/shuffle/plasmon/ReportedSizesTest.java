package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.zip.DeflaterOutputStream;

import org.junit.jupiter.api.Test;
import org.plasmon.shuffle.BufferedPartitions;

/** Adaptive execution was told sizes without compression, and cut small shuffles in pieces. */
class ReportedSizesTest {
    private static final ReportedSizes.Compression DEFLATE =
            (partition, stream) -> new DeflaterOutputStream(stream);

    private static BufferedPartitions content(byte[]... sections) {
        BufferedPartitions content =
                new BufferedPartitions(sections.length, bytes -> true, bytes -> { });
        for (int partition = 0; partition < sections.length; partition++) {
            content.section(partition).write(sections[partition], 0, sections[partition].length);
        }
        return content;
    }

    private static byte[] noise(int bytes) {
        byte[] noise = new byte[bytes];
        new Random(bytes).nextBytes(noise);
        return noise;
    }

    private static long[] sizes(byte[]... sections) throws IOException {
        ReportedSizes sizes = new ReportedSizes(DEFLATE);
        sizes.sample(content(sections), sections.length);
        long[] stored = new long[sections.length];
        for (int partition = 0; partition < stored.length; partition++) {
            stored[partition] = sections[partition].length;
        }
        return sizes.of(stored);
    }

    @Test
    void recordsThatCompressWellAreReportedSmaller() throws IOException {
        long[] sizes = sizes(new byte[1 << 20], new byte[1 << 19]);
        assertTrue(sizes[0] > 0 && sizes[0] < 20_000, "" + sizes[0]);
        assertEquals(sizes[0] / 2, sizes[1], 1);
    }

    @Test
    void recordsThatDoNotCompressKeepTheirSize() throws IOException {
        long[] sizes = sizes(noise(1 << 20), noise(1 << 19));
        assertEquals(1 << 20, sizes[0], 2000);
        assertEquals(1 << 19, sizes[1], 1000);
    }

    @Test
    void anEmptySectionStaysEmptyAndNoOtherBecomesEmpty() throws IOException {
        long[] sizes = sizes(new byte[0], new byte[1 << 20], new byte[0], new byte[1]);
        assertEquals(0, sizes[0]);
        assertEquals(0, sizes[2]);
        assertEquals(1, sizes[3]);
    }

    @Test
    void anOutputWithoutBytesIsReportedAsItIs() throws IOException {
        assertArrayEquals(new long[2], sizes(new byte[0], new byte[0]));
    }

    @Test
    void aFewSectionsOfTheWholeRangeAreTriedAndOnlyTheirHeads() throws IOException {
        List<Integer> tried = new ArrayList<>();
        ReportedSizes sizes = new ReportedSizes((partition, stream) -> {
            tried.add(partition);
            return stream;
        });
        byte[][] sections = new byte[90][1];
        sections[30] = new byte[0];
        sections[60] = new byte[10 << 20];
        sizes.sample(content(sections), 90);
        assertEquals(List.of(0, 31, 60), tried);
        // Nothing was made smaller, so what was tried is what it was.
        assertArrayEquals(new long[] {7}, sizes.of(new long[] {7}));
    }

    @Test
    void allRunsOfAnOutputCount() throws IOException {
        ReportedSizes sizes = new ReportedSizes(DEFLATE);
        sizes.sample(content(new byte[ReportedSizes.HEAD_BYTES]), 1);
        sizes.sample(content(noise(ReportedSizes.HEAD_BYTES)), 1);
        assertEquals(500, sizes.of(new long[] {1000})[0], 10);
    }
}
