package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.spark.SparkConf;
import org.plasmon.shuffle.NativeLibrary;
import org.plasmon.shuffle.NativeStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The store that a driver starts for its application.
 *
 * <p>A keeper holds its memory: when the daemon dies, the keeper starts another one, and what was
 * sealed is still there. When both die, the driver starts another store, see {@link StoreWatch}.
 *
 * <p>It ends with its last client, so it is gone when driver and executors are, however they ended.
 * What then is left of a killed driver is a folder with a lock and a log in the temporary
 * directory; the next application that starts removes it.
 */
final class EmbeddedStore {
    private static final Logger LOG = LoggerFactory.getLogger(EmbeddedStore.class);
    private static final String FOLDER = "plasmon-spark-";

    /** The longest path that a socket can have on Linux. */
    private static final int SOCKET_PATH_MAX = 107;

    private final SparkConf conf;
    private final Path folder;
    private final Path socket;
    private final String spill;
    private final MemoryPlan plan;

    private EmbeddedStore(SparkConf conf, Path folder, MemoryPlan plan) {
        this.conf = conf;
        this.plan = plan;
        this.folder = folder;
        this.socket = folder.resolve("store.sock");
        String chosen = conf.get(Settings.SPILL_DIRECTORY, "");
        this.spill = chosen.isEmpty()
                ? SpillPlace.choose(conf, folder.resolve("spill")).toString()
                : chosen;
    }

    /** Starts it; when this returns, it answers. */
    static EmbeddedStore start(SparkConf conf) throws IOException {
        Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
        removeAbandoned(temporary);
        Path folder = makeFolder(temporary);
        try {
            EmbeddedStore store = new EmbeddedStore(conf, folder, plan(conf, temporary, folder));
            store.launch();
            return store;
        } catch (IOException | RuntimeException error) {
            remove(folder);
            throw error;
        }
    }

    /** Sizes are of a store that a driver starts; another one keeps its own. */
    static void warnOfSizes(SparkConf conf) {
        for (String setting : List.of(Settings.MEMORY, Settings.STORE_BYTES)) {
            if (conf.contains(setting)) {
                LOG.warn("{} has no effect: the shuffle is in a store that runs already, whose "
                        + "size was said when it was started", setting);
            }
        }
    }

    private static MemoryPlan plan(SparkConf conf, Path temporary, Path folder)
            throws IOException {
        MemoryPlan.Place place = MachineMemory.read();
        Runtime machine = Runtime.getRuntime();
        UnaryOperator<String> settings = key -> conf.get(key, null);
        MemoryPlan.Processes own = PlannedProcesses.of(
                settings, machine.maxMemory(), machine.availableProcessors(), place.isContainer());
        MemoryPlan.Asked asked = Settings.storeBytes(settings, place.bytes());
        MemoryPlan plan = RunningPlans.plan(() -> list(temporary), folder, own.bytes(),
                others -> MemoryPlan.of(place, own, others, asked));
        if (plan.isTight()) {
            LOG.warn("{}", plan.sentence());
        } else {
            LOG.info("{}", plan.sentence());
        }
        return plan;
    }

    /** A folder of this user's alone, with a short name, because sockets have short paths. */
    private static Path makeFolder(Path temporary) throws IOException {
        String name = String.format("%s%d-%06x", FOLDER, ProcessHandle.current().pid(),
                new SecureRandom().nextInt(1 << 24));
        return Files.createDirectory(temporary.resolve(name),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    }

    Path socket() {
        return socket;
    }

    MemoryPlan plan() {
        return plan;
    }

    /**
     * Starts another store at the same socket, when no process of the one before is left. It is
     * empty; the connections of the application go on with it.
     */
    void restart() throws IOException {
        launch();
    }

    private void launch() throws IOException {
        if (socket.toString().length() > SOCKET_PATH_MAX) {
            throw new IllegalArgumentException(
                    "the path of the store's socket is too long: " + socket
                            + "; set java.io.tmpdir to a shorter one");
        }
        String program = conf.get(Settings.DAEMON, "");
        boolean own = program.isEmpty();
        if (own) {
            program = NativeLibrary.extractDaemon(folder).toString();
        }
        Map<String, String> settings = new TreeMap<>();
        settings.put("socket", socket.toString());
        settings.put("end_with_last_client", "true");
        settings.put("linger_ms", "1000");
        settings.put("keeper", "true");
        settings.put("spill_dir", spill);
        settings.put("capacity_bytes", String.valueOf(plan.storeBytes()));
        NativeStore.start(program, settings);
        if (own) {
            // It runs; its file is needed no more.
            Files.deleteIfExists(Path.of(program));
        }
    }

    /** Removes its folder; the store itself is stopping already. */
    void forget() {
        remove(folder);
    }

    /** Removes what killed drivers left: folders that are named after processes that are gone. */
    private static void removeAbandoned(Path temporary) {
        list(temporary).stream().filter(EmbeddedStore::isAbandoned).forEach(EmbeddedStore::remove);
    }

    /** The folders of the stores that drivers started. */
    private static List<Path> list(Path temporary) {
        try (Stream<Path> entries = Files.list(temporary)) {
            return entries
                    .filter(it -> it.getFileName().toString().startsWith(FOLDER))
                    .collect(Collectors.toList());
        } catch (IOException | UncheckedIOException error) {
            LOG.debug("the temporary directory cannot be listed: other applications stay "
                    + "unknown, and nothing is tidied up", error);
            return List.of();
        }
    }

    private static boolean isAbandoned(Path folder) {
        String name = folder.getFileName().toString();
        int end = name.indexOf('-', FOLDER.length());
        if (end < 0) {
            return false;
        }
        try {
            long pid = Long.parseLong(name.substring(FOLDER.length(), end));
            // Executors may outlive a killed driver for a moment, and with them the socket.
            return ProcessHandle.of(pid).isEmpty() && !Files.exists(folder.resolve("store.sock"));
        } catch (NumberFormatException foreign) {
            return false;
        }
    }

    private static void remove(Path folder) {
        try (Stream<Path> entries = Files.walk(folder)) {
            for (Path entry : entries.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(entry);
            }
        } catch (IOException | UncheckedIOException error) {
            // Another application may tidy up at the same moment, or another user owns it.
            LOG.debug("{} was not removed", folder, error);
        }
    }
}
