package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
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

    private static ReportedSizes made() throws IOException {
        return new ReportedSizes(DEFLATE, ReportedSizes.frameBytes(DEFLATE));
    }

    private static long deflated(byte[] section) throws IOException {
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        try (OutputStream stream = new DeflaterOutputStream(made)) {
            stream.write(section);
        }
        return made.size();
    }

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
        ReportedSizes sizes = made();
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
        assertEquals(sizes[0] / 2, sizes[1], 10);
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
        assertTrue(sizes[3] > 0);
    }

    @Test
    void anOutputWithoutBytesIsReportedAsItIs() throws IOException {
        assertArrayEquals(new long[2], sizes(new byte[0], new byte[0]));
    }

    /** Skew was judged by sizes that were taken from sections of one row each. */
    @Test
    void theLargestSectionAndOthersThatWereTriedWholeHaveTheirOwnSize() throws IOException {
        byte[][] sections = new byte[100][];
        for (int partition = 0; partition < sections.length; partition++) {
            sections[partition] = noise(28 + partition % 3);
        }
        sections[77] = new byte[2800];
        long[] sizes = sizes(sections);
        assertEquals(deflated(sections[77]), sizes[77]);
        for (int partition : new int[] {0, 50}) {
            assertEquals(deflated(sections[partition]), sizes[partition]);
        }
        // Of the others the frame of a stream is known, and how much its content shrinks.
        long frame = ReportedSizes.frameBytes(DEFLATE);
        assertTrue(sizes[1] >= frame && sizes[1] < frame + 28, "" + sizes[1]);
    }

    @Test
    void aFewSectionsOfTheWholeRangeAreTriedAndOnlyTheirHeads() throws IOException {
        List<Integer> tried = new ArrayList<>();
        ReportedSizes sizes = new ReportedSizes((partition, stream) -> {
            tried.add(partition);
            return stream;
        }, 0);
        byte[][] sections = new byte[90][1];
        sections[45] = new byte[0];
        sections[60] = new byte[10 << 20];
        sizes.sample(content(sections), 90);
        assertEquals(List.of(60, 0, 46), tried);
        // Nothing was made smaller, so what was tried is what it was.
        assertArrayEquals(new long[] {7}, sizes.of(new long[] {7}));
    }

    @Test
    void allRunsOfAnOutputCount() throws IOException {
        ReportedSizes sizes = made();
        sizes.sample(content(new byte[ReportedSizes.HEAD_BYTES]), 1);
        sizes.sample(content(noise(ReportedSizes.HEAD_BYTES)), 1);
        assertEquals(500, sizes.of(new long[] {1000})[0], 20);
    }
}
