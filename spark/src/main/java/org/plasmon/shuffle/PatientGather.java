package org.plasmon.shuffle;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A gather that goes on when nodes or pool daemons fail for a while.
 *
 * <pre>
 * part comes ─► given
 * unreachable ─► another node may have a copy, or the pool daemon of this machine is started again:
 *                asked again, with all later ones, until the time is over
 *             ─► there is one copy, on a node that is not up: given up at once
 * </pre>
 */
final class PatientGather implements AutoCloseable {
    /** Between two attempts, in milliseconds. */
    private static final long PAUSE_MS = 50;

    private final NativeStore store;
    private final List<Gather.Part> parts;
    private final Patience patience;
    private Gather gather;
    private int at;
    /** When to give up, since a part failed; 0 after one that came. */
    private long deadline;

    /**
     * How much to have on its way, and how long to go on.
     *
     * @param bytesAhead how many bytes are on their way or wait to be taken, at most
     * @param copies how many nodes keep a run
     * @param timeoutMs for how long to try to get one part, in milliseconds
     */
    record Patience(long bytesAhead, int copies, long timeoutMs) {}

    PatientGather(NativeStore store, List<Gather.Part> parts, Patience patience)
            throws StoreException {
        this.store = store;
        this.parts = parts;
        this.patience = patience;
        this.gather = parts.isEmpty() ? null : begin();
    }

    private Gather begin() throws StoreException {
        return Gather.begin(store, parts.subList(at, parts.size()), patience.bytesAhead());
    }

    /** The next part; an error is that of this part alone. */
    NativeStore.Pin next() throws StoreException {
        while (true) {
            try {
                NativeStore.Pin pin = gather.next();
                at++;
                deadline = 0;
                return pin;
            } catch (StoreException error) {
                if (!mayPass(error)) {
                    at++;
                    throw error;
                }
            }
            pause();
            gather.close();
            gather = begin();
        }
    }

    private boolean mayPass(StoreException error) {
        if (!error.isUnreachable() && !error.isDisconnected()) {
            return false;
        }
        if (deadline == 0) {
            deadline = System.nanoTime() + patience.timeoutMs() * 1_000_000;
        }
        return System.nanoTime() < deadline && !isHopeless(parts.get(at));
    }

    /** Whether the only node that has the run is not there. */
    private boolean isHopeless(Gather.Part part) {
        if (patience.copies() > 1) {
            return false;
        }
        try {
            Set<Integer> up = store.nodes().stream()
                    .filter(NativeStore.PoolNode::isUp)
                    .map(NativeStore.PoolNode::slot)
                    .collect(Collectors.toSet());
            return !up.contains(part.slot());
        } catch (StoreException daemonIsAway) {
            return false;
        }
    }

    private static void pause() throws StoreException {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new StoreException(
                    "cancelled", "the task was killed while it waited for another node");
        }
    }

    @Override
    public void close() {
        if (gather != null) {
            gather.close();
        }
    }
}
