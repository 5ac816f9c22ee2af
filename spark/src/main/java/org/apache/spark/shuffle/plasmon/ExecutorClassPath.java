package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import java.util.zip.ZipFile;

/**
 * Whether executors will find the shuffle manager's class. One that does not dies before it
 * reports to the driver: Spark starts another one, without end, and names no cause.
 *
 * <p>Executors of Spark's own clusters read the same files as the driver, as the shuffle is of one
 * machine. So the driver looks for the class along their class path, before any is started. It
 * does not look if it has the class from elsewhere than its own settings, such as the folder of
 * Spark's jars: executors then have it from there, too.
 */
final class ExecutorClassPath {
    private static final String CLASS =
            PlasmonShuffleManager.class.getName().replace('.', '/') + ".class";

    private ExecutorClassPath() {}

    /** Throws with what to set, if executors will not find the class. */
    static void check(String master, String driver, String executor) {
        check(master, driver, executor, ExecutorClassPath::holdsManager);
    }

    static void check(
            String master, String driver, String executor, Predicate<Path> holdsManager) {
        if (!master.startsWith("spark://") && !master.startsWith("local-cluster")) {
            return;
        }
        for (String entry : entries(executor)) {
            if (entry.contains("plasmon") && !entry.startsWith("/")) {
                throw new IllegalArgumentException(
                        Settings.EXECUTOR_CLASS_PATH + " names \"" + entry + "\", a relative path, "
                                + "which executors cannot find: give the jar's whole path");
            }
        }
        String own = first(entries(driver), holdsManager);
        List<String> absolute = entries(executor);
        absolute.removeIf(entry -> !entry.startsWith("/"));
        if (own != null && first(absolute, holdsManager) == null) {
            throw new IllegalArgumentException(
                    "executors would not find Plasmon's shuffle manager: "
                            + Settings.EXECUTOR_CLASS_PATH + " is \"" + executor + "\", without "
                            + Path.of(own).toAbsolutePath() + ", which the driver has: add it "
                            + "there, or use `plasmon spark submit`, which does");
        }
    }

    private static String first(List<String> entries, Predicate<Path> holdsManager) {
        for (String entry : entries) {
            for (Path file : files(entry)) {
                if (holdsManager.test(file)) {
                    return file.toString();
                }
            }
        }
        return null;
    }

    private static List<String> entries(String classPath) {
        List<String> entries = new ArrayList<>(List.of(classPath.trim().split(":")));
        entries.removeIf(String::isEmpty);
        return entries;
    }

    /** What an entry stands for: itself, or with a star all jars of a folder. */
    private static List<Path> files(String entry) {
        if (!entry.equals("*") && !entry.endsWith("/*")) {
            return List.of(Path.of(entry));
        }
        Path folder = Path.of(entry.substring(0, entry.length() - 1));
        try (Stream<Path> jars = Files.list(folder)) {
            return jars.filter(file -> file.toString().toLowerCase().endsWith(".jar")).toList();
        } catch (IOException unreadable) {
            // Java passes over such an entry, too.
            return List.of();
        }
    }

    private static boolean holdsManager(Path file) {
        if (Files.isDirectory(file)) {
            return Files.isRegularFile(file.resolve(CLASS));
        }
        try (ZipFile jar = new ZipFile(file.toFile())) {
            return jar.getEntry(CLASS) != null;
        } catch (IOException noJar) {
            // Java passes over such an entry, too.
            return false;
        }
    }
}
