package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A class path of the user's own for executors, given to a plain spark-submit, took the place of
 * ours. Executors died at their start and were started again forever.
 */
class ExecutorClassPathTest {
    private static final String CLUSTER = "local-cluster[2,1,1024]";

    @TempDir Path folder;
    private String jar;
    private String other;

    @BeforeEach
    void jars() throws IOException {
        jar = jar("plasmon-spark.jar", "org/apache/spark/shuffle/plasmon/PlasmonShuffleManager");
        other = jar("other.jar", "org/other/Class");
    }

    private String jar(String name, String type) throws IOException {
        Path file = folder.resolve(name);
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(file))) {
            zip.putNextEntry(new ZipEntry(type + ".class"));
        }
        return file.toString();
    }

    private static String refused(String master, String driver, String executor) {
        return assertThrows(IllegalArgumentException.class,
                () -> ExecutorClassPath.check(master, driver, executor)).getMessage();
    }

    @Test
    void executorsWithoutTheJarOfTheDriverAreRefused() throws IOException {
        Path text = Files.writeString(folder.resolve("text.jar"), "no jar");
        for (String executor : new String[] {"", "x", other, text.toString(), "/nowhere/*"}) {
            for (String master : new String[] {CLUSTER, "spark://host:7077"}) {
                String said = refused(master, other + ":" + jar, executor);
                assertTrue(said.contains("would not find"), said);
                assertTrue(said.contains(jar) && said.contains("plasmon spark submit"), said);
            }
        }
        assertTrue(refused(CLUSTER, jar, "target/plasmon-spark.jar").contains("whole path"));
    }

    @Test
    void executorsWithTheJarStart() throws IOException {
        String copy = jar("copy.jar", "org/apache/spark/shuffle/plasmon/PlasmonShuffleManager");
        for (String executor : new String[] {jar, "x:" + jar, copy, folder + "/*"}) {
            assertDoesNotThrow(() -> ExecutorClassPath.check(CLUSTER, jar, executor));
        }
    }

    /** Executors share the folder of Spark's jars. Other clusters have paths of their own. */
    @Test
    void whatIsNotOfTheSettingsIsNotJudged() {
        assertDoesNotThrow(() -> ExecutorClassPath.check(CLUSTER, "", ""));
        assertDoesNotThrow(() -> ExecutorClassPath.check(CLUSTER, other, "x"));
        for (String master : new String[] {"local[2]", "yarn", "k8s://x", ""}) {
            assertDoesNotThrow(() -> ExecutorClassPath.check(master, jar, "x"));
        }
    }
}
