package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.InputStream;

/**
 * A stream over an array that may be filled again, for one thread. Java's own take a lock for every
 * byte, and Java's serialisation reads many single bytes.
 */
class ArrayStream extends InputStream {
    private final byte[] bytes;
    private int at;
    private int end;

    /**
     * @param bytes the array
     * @param end how many bytes of it there are to read
     */
    ArrayStream(byte[] bytes, int end) {
        this.bytes = bytes;
        this.end = end;
    }

    /** Fills the array again; how many bytes there are now, and -1 for the end of the stream. */
    int fill(byte[] array) throws IOException {
        return -1;
    }

    private boolean isAtEnd() throws IOException {
        if (at < end) {
            return false;
        }
        int filled = fill(bytes);
        at = 0;
        end = Math.max(0, filled);
        return filled <= 0;
    }

    @Override
    public int read() throws IOException {
        return isAtEnd() ? -1 : bytes[at++] & 0xff;
    }

    @Override
    public int read(byte[] target, int offset, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        if (isAtEnd()) {
            return -1;
        }
        int taken = Math.min(length, end - at);
        System.arraycopy(bytes, at, target, offset, taken);
        at += taken;
        return taken;
    }

    @Override
    public int available() {
        return end - at;
    }
}
