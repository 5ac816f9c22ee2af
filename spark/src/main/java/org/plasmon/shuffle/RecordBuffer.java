package org.plasmon.shuffle;

import java.io.OutputStream;
import java.util.Arrays;
import java.util.function.LongConsumer;
import java.util.function.LongPredicate;

/**
 * The heap memory in which a task's records are serialised before they are put in order: a stream
 * into an array that grows, after asking for the memory. Where the answer is no it grows all the
 * same, because a record cannot be halved, and is {@link #isPressed} until it is emptied. What one
 * huge record made it grow to is given back then.
 */
public final class RecordBuffer extends OutputStream {
    private static final int BYTES_FIRST = 16 << 10;
    private static final int BYTES_MAX = Integer.MAX_VALUE - 64;

    /** What stays for the next run, twice over what a run of the default size grows it to. */
    static final int KEPT_BYTES_MAX = 32 << 20;

    private final LongPredicate reserve;
    private final LongConsumer release;
    /** How much of the array was granted. */
    private long reserved;
    private byte[] bytes;
    private int size;
    private boolean pressed;

    /**
     * @param reserve called with a number of bytes before they are taken; whether they are granted
     * @param release called with the granted bytes that are freed before the task ends
     */
    public RecordBuffer(LongPredicate reserve, LongConsumer release) {
        this.reserve = reserve;
        this.release = release;
        this.bytes = new byte[0];
    }

    /** The memory; its first {@link #size} bytes are in use. */
    byte[] bytes() {
        return bytes;
    }

    /** How many bytes were written. */
    public int size() {
        return size;
    }

    /** Whether memory was refused: time to empty it. */
    public boolean isPressed() {
        return pressed;
    }

    /** Empties it; the memory stays, unless it is more than a run usually needs. */
    public void clear() {
        if (bytes.length > KEPT_BYTES_MAX) {
            bytes = new byte[0];
            release.accept(reserved);
            reserved = 0;
        }
        size = 0;
        pressed = false;
    }

    @Override
    public void write(int value) {
        ensure(1);
        bytes[size++] = (byte) value;
    }

    @Override
    public void write(byte[] from, int offset, int length) {
        ensure(length);
        System.arraycopy(from, offset, bytes, size, length);
        size += length;
    }

    @Override
    public void close() {
        // Serialisers close what they write to at the end of a section; others follow.
    }

    private void ensure(int more) {
        if (more > bytes.length - size) {
            grow((long) size + more);
        }
    }

    private void grow(long wanted) {
        if (wanted > BYTES_MAX) {
            throw new IllegalStateException(
                    "a partition of one map task's output would have more than " + BYTES_MAX
                            + " bytes in one piece; use more partitions or smaller records");
        }
        long doubled = Math.max(BYTES_FIRST, 2L * bytes.length);
        int capacity = (int) Math.min(BYTES_MAX, Math.max(wanted, doubled));
        long added = capacity - bytes.length;
        if (reserve.test(added)) {
            reserved += added;
        } else {
            pressed = true;
        }
        bytes = Arrays.copyOf(bytes, capacity);
    }
}
