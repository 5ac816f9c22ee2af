package org.plasmon.shuffle;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * The spilled runs that tasks of this process read in their files, which stay open from task to
 * task.
 *
 * <p>Each of some hundred reduce tasks wants one section of every run. To ask the store's daemon
 * for the file takes several times as long as to read the section; and the kernel, which sees
 * sections of neighbouring partitions read one after the other through one descriptor, reads ahead.
 *
 * <pre>
 * take ─► open already │ asked for ─► users + 1 ─► release ─► users - 1 ─┬─► stays open
 *                                           not in its file, or no room ─┴─► closed
 * forget: the shuffle is over ─► closed, with its last user
 * </pre>
 *
 * <p>A run never changes and its name is never used again, so an open file stays valid. It
 * takes room on the disk after the store has removed it, hence {@link #forget}. All methods may be
 * called by any thread; the daemon is asked without the lock.
 */
final class SpilledRuns {
    /** Files that stay open, well below the descriptors that a process may have. */
    static final int OPEN_MAX = 256;

    private final NativeStore store;
    private final Map<RunId, OpenRun> open = new HashMap<>();
    private boolean closed;

    SpilledRuns(NativeStore store) {
        this.store = store;
    }

    /** One run, and how many tasks read it. */
    static final class OpenRun {
        private final SpilledRun run;
        private int users = 1;
        /** It is found by the next task as well. */
        private boolean stays;

        private OpenRun(SpilledRun run) {
            this.run = run;
        }

        SpilledRun run() {
            return run;
        }
    }

    /** A run that is not in memory; {@link #release} follows. */
    OpenRun take(RunId id) throws StoreException {
        OpenRun found = found(id);
        if (found != null) {
            return found;
        }
        return entered(new OpenRun(new SpilledRun(store.openPieces(id), id)));
    }

    private synchronized OpenRun found(RunId id) {
        OpenRun found = open.get(id);
        if (found != null) {
            found.users++;
        }
        return found;
    }

    /**
     * Lets other tasks find a run. One that came back meanwhile is held in memory by being open,
     * which must not last; and of two tasks that open the same, the later one keeps its own.
     */
    private synchronized OpenRun entered(OpenRun opened) {
        SpilledRun run = opened.run();
        if (!closed && run.isInFile() && !open.containsKey(run.id()) && makeRoom(run.id())) {
            opened.stays = true;
            open.put(run.id(), opened);
        }
        return opened;
    }

    /**
     * Files of other shuffles make room, but those of this one do not: each task goes through all
     * of them, so what has to go first is what the next task wants first.
     */
    private boolean makeRoom(RunId id) {
        if (open.size() < OPEN_MAX) {
            return true;
        }
        for (OpenRun opened : open.values()) {
            if (opened.users == 0 && opened.run().id().shuffle() != id.shuffle()) {
                drop(List.of(opened));
                return true;
            }
        }
        return false;
    }

    synchronized void release(OpenRun opened) {
        opened.users--;
        if (opened.users == 0 && !opened.stays) {
            opened.run().close();
        }
    }

    /** Has the files of a shuffle closed, those in use as soon as they are not. */
    void forget(int shuffle) {
        drop(id -> id.shuffle() == shuffle);
    }

    /** Has the files of an attempt closed. */
    void forget(int shuffle, long map) {
        drop(id -> id.shuffle() == shuffle && id.map() == map);
    }

    private synchronized void drop(Predicate<RunId> which) {
        List<OpenRun> found = new ArrayList<>();
        for (OpenRun opened : open.values()) {
            if (which.test(opened.run().id())) {
                found.add(opened);
            }
        }
        drop(found);
    }

    private void drop(List<OpenRun> runs) {
        for (OpenRun opened : runs) {
            open.remove(opened.run().id());
            opened.stays = false;
            if (opened.users == 0) {
                opened.run().close();
            }
        }
    }

    /** How many files stay open. */
    synchronized int size() {
        return open.size();
    }

    /** Closes all of them, and has none stay from now on. */
    synchronized void close() {
        closed = true;
        drop(new ArrayList<>(open.values()));
    }
}
