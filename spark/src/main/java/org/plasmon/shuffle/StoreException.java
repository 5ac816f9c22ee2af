package org.plasmon.shuffle;

import java.io.IOException;

/**
 * What the store, or the way to it, refused. The key is the stable one of the error's code, as in
 * every language; the message says what was being done, to what, and what the caller can do.
 */
public final class StoreException extends IOException {
    private static final long serialVersionUID = 1L;

    private final String key;

    /** Called by the native library. */
    public StoreException(String key, String message) {
        super(message);
        this.key = key;
    }

    /** The stable key of the code, such as {@code store_full}. */
    public String key() {
        return key;
    }

    /** Whether the requested object is gone or damaged, so that it must be made again. */
    public boolean isLoss() {
        switch (key) {
            case "absent":
            case "deleted":
            case "evicted":
            case "creator_died":
            case "corrupt":
                return true;
            default:
                return false;
        }
    }

    /**
     * Whether there is no connection: the store is gone, or this was the first thing asked of
     * another one in its place.
     */
    public boolean isDisconnected() {
        return key.equals("disconnected");
    }

    /** Whether no node that has the object answers, which may pass. */
    public boolean isUnreachable() {
        return key.equals("unreachable");
    }

    /** Whether the application has as much in the store as it may. */
    public boolean isBeyondQuota() {
        return key.equals("quota_exceeded");
    }

    /** Whether the store has no room, which may pass. */
    public boolean isFull() {
        return key.equals("store_full");
    }
}
