package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.Random;

import org.junit.jupiter.api.Test;

/** A stream over an array gives what is in it, and what it is filled with. */
class ArrayStreamTest {
    private static byte[] random(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return bytes;
    }

    @Test
    void bytesAreReadOneByOneAndMany() throws IOException {
        byte[] bytes = {-1, 0, 1, 2};
        ArrayStream stream = new ArrayStream(bytes, 3);
        assertEquals(3, stream.available());
        assertEquals(0xff, stream.read());
        assertEquals(0, stream.read(new byte[0], 0, 0));
        byte[] rest = new byte[9];
        assertEquals(2, stream.read(rest, 1, 8));
        assertArrayEquals(new byte[] {0, 0, 1, 0, 0, 0, 0, 0, 0}, rest);
        assertEquals(-1, stream.read());
        assertEquals(-1, stream.read(rest, 0, 1));
        assertEquals(0, stream.available());
    }

    @Test
    void itIsFilledAgainUntilThereIsNoMore() throws IOException {
        byte[] whole = random(1000);
        ArrayStream stream = new ArrayStream(new byte[64], 0) {
            private int given;

            @Override
            int fill(byte[] array) {
                int count = Math.min(array.length, whole.length - given);
                System.arraycopy(whole, given, array, 0, count);
                given += count;
                return count == 0 ? -1 : count;
            }
        };
        assertArrayEquals(whole, stream.readAllBytes());
    }
}
