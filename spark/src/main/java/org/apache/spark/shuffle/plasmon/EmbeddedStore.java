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

    private EmbeddedStore(SparkConf conf, Path folder) {
        this.conf = conf;
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
            EmbeddedStore store = new EmbeddedStore(conf, folder);
            store.launch();
            return store;
        } catch (IOException | RuntimeException error) {
            remove(folder);
            throw error;
        }
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
        long capacity = conf.getSizeAsBytes(Settings.STORE_BYTES, "0");
        settings.put("capacity_bytes", String.valueOf(capacity));
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
        List<Path> found;
        try (Stream<Path> entries = Files.list(temporary)) {
            found = entries.filter(EmbeddedStore::isAbandoned).collect(Collectors.toList());
        } catch (IOException | UncheckedIOException error) {
            LOG.debug("the temporary directory cannot be listed; nothing is tidied up", error);
            return;
        }
        found.forEach(EmbeddedStore::remove);
    }

    private static boolean isAbandoned(Path folder) {
        String name = folder.getFileName().toString();
        int end = name.indexOf('-', FOLDER.length());
        if (!name.startsWith(FOLDER) || end < 0) {
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
