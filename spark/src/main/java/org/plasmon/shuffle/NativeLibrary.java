package org.plasmon.shuffle;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;

/**
 * Brings what this jar holds for the machine's processor onto the disk: the library, which is
 * loaded once for each virtual machine, and the daemon's program.
 *
 * <p>A machine that the jar has no library for is an error at the start. There is no other way to
 * shuffle to fall back to, so that a benchmark never measures the wrong thing.
 */
public final class NativeLibrary {
    private static final String LIBRARY = "libplasmon_jni.so";
    private static final String DAEMON = "plasmond";

    private static boolean loaded;

    private NativeLibrary() {}

    /** Loads the library unless it is loaded. */
    public static synchronized void load() {
        if (loaded) {
            return;
        }
        Path file = null;
        try {
            Path directory = Files.createTempDirectory("plasmon-jni-");
            file = directory.resolve(LIBRARY);
            extract(LIBRARY, file);
            System.load(file.toString());
            loaded = true;
        } catch (IOException error) {
            throw new IllegalStateException(
                    "Plasmon's native library cannot be written to the temporary directory "
                            + System.getProperty("java.io.tmpdir") + ": " + error
                            + "; set java.io.tmpdir to a directory that can be written to", error);
        } catch (UnsatisfiedLinkError error) {
            throw new IllegalStateException(
                    "Plasmon's native library for " + platform()
                            + " does not load on this machine: "
                            + error.getMessage() + "; build the jar here with `make spark`", error);
        } finally {
            forget(file);
        }
    }

    /** A mapped library needs its file no more. */
    private static void forget(Path file) {
        if (file == null) {
            return;
        }
        try {
            Files.deleteIfExists(file);
            Files.deleteIfExists(file.getParent());
        } catch (IOException notRemoved) {
            // It lies in the temporary directory, where the system cleans up.
            file.toFile().deleteOnExit();
        }
    }

    /** Writes the daemon's program into a directory. */
    public static Path extractDaemon(Path directory) throws IOException {
        Path program = directory.resolve(DAEMON);
        extract(DAEMON, program);
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwx------"));
        return program;
    }

    private static void extract(String name, Path target) throws IOException {
        String resource = "/META-INF/native/" + platform() + "/" + name;
        try (InputStream bytes = NativeLibrary.class.getResourceAsStream(resource)) {
            if (bytes == null) {
                throw new IllegalStateException(
                        "the Plasmon jar holds no " + name + " for this machine, " + platform()
                                + "; build the jar on such a machine with `make spark`");
            }
            Files.copy(bytes, target, StandardCopyOption.REPLACE_EXISTING);
        }
    }

    /** Operating system and processor, as the jar's folders are named. */
    static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String processor = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        if (processor.equals("amd64")) {
            processor = "x86_64";
        }
        return system + "-" + processor;
    }
}
