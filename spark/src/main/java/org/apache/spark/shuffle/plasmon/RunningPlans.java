package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.function.Supplier;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the applications of a user on a machine have planned to take, which their drivers leave in
 * the folders of their stores: so that the default of the next one is what these leave.
 */
final class RunningPlans {
    private static final Logger LOG = LoggerFactory.getLogger(RunningPlans.class);
    private static final String FILE = "plan";

    /** How long to wait for another driver that plans: this many steps. */
    private static final int STEPS_MAX = 500;
    private static final long STEP_MS = 10;

    private RunningPlans() {}

    /** What is planned, given the others, while no other application plans. */
    interface Planning {
        MemoryPlan plan(MemoryPlan.Others others) throws IOException;
    }

    /**
     * Plans and notes the plan in a folder, one application after the other.
     *
     * @param folders where the others' folders may be, which this process can look into
     * @param own the folder of this application
     * @param processBytes what its processes may take
     */
    static MemoryPlan plan(
            Supplier<List<Path>> folders, Path own, long processBytes, Planning planning)
            throws IOException {
        Path lock = own.resolveSibling(".plasmon-spark-" + System.getProperty("user.name"));
        try (FileChannel channel = open(lock);
                FileLock held = channel == null ? null : lock(channel)) {
            if (held == null) {
                LOG.debug("another application may plan at the same moment");
            }
            MemoryPlan plan = planning.plan(read(folders.get(), own));
            Files.writeString(own.resolve(FILE), plan.storeBytes() + " " + processBytes);
            return plan;
        }
    }

    /** Another user's file must not keep this one from starting: it plans without the lock then. */
    private static FileChannel open(Path lock) {
        try {
            return FileChannel.open(lock, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        } catch (IOException error) {
            LOG.debug("{} cannot be locked", lock, error);
            return null;
        }
    }

    /** Null when another driver has it for long, which only one does that hangs. */
    private static FileLock lock(FileChannel channel) throws IOException {
        for (int step = 0; step < STEPS_MAX; step++) {
            try {
                FileLock held = channel.tryLock();
                if (held != null) {
                    return held;
                }
                Thread.sleep(STEP_MS);
            } catch (OverlappingFileLockException ofThisProcess) {
                return null;
            } catch (InterruptedException toStop) {
                Thread.currentThread().interrupt();
                return null;
            }
        }
        return null;
    }

    private static MemoryPlan.Others read(List<Path> folders, Path own) {
        int applications = 0;
        long stores = 0;
        long processes = 0;
        for (Path folder : folders) {
            long[] noted = folder.equals(own) ? null : noted(folder);
            if (noted != null) {
                applications++;
                stores += noted[0];
                processes += noted[1];
            }
        }
        return new MemoryPlan.Others(applications, stores, processes);
    }

    /** Null where nothing is noted that this user can read. */
    private static long[] noted(Path folder) {
        try {
            String[] words = Files.readString(folder.resolve(FILE)).trim().split(" ");
            long[] numbers = {Long.parseLong(words[0]), Long.parseLong(words[1])};
            return numbers[0] < 0 || numbers[1] < 0 ? null : numbers;
        } catch (IOException | RuntimeException foreign) {
            return null;
        }
    }
}
