package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.Map;

import org.apache.spark.shuffle.plasmon.MemoryPlan.Processes;
import org.junit.jupiter.api.Test;

class PlannedProcessesTest {
    private static final long MIB = 1 << 20;
    private static final long GIB = 1 << 30;
    /** An executor of Spark's default size, with what is not on its heap. */
    private static final long EXECUTOR = (1024 + 384) * MIB;

    private static Map<String, String> conf(String master, String... settings) {
        Map<String, String> conf = new HashMap<>(Map.of("spark.master", master));
        for (int at = 0; at < settings.length; at += 2) {
            conf.put(settings[at], settings[at + 1]);
        }
        return conf;
    }

    private static Processes of(boolean isContainer, Map<String, String> conf) {
        return PlannedProcesses.of(conf::get, 8 * GIB, 16, isContainer);
    }

    private static void assertExecutors(int executors, int least, Map<String, String> conf) {
        Processes found = of(false, conf);
        assertEquals(executors, found.executors());
        assertEquals(least, found.executorsLeast());
    }

    @Test
    void inLocalModeTheDriverIsAll() {
        long driver = 8 * GIB + (long) (0.1 * 8 * GIB);
        assertEquals(new Processes(driver, 0, 0, 0, 16), of(false, conf("local[*]")));
        assertEquals(new Processes(driver, 0, 0, 0, 1), of(false, conf("local")));
        assertEquals(3, of(true, conf("local[3, 2]")).cores());
        Map<String, String> more = conf("local[2]", "spark.memory.offHeap.enabled", "true",
                "spark.memory.offHeap.size", "1g", "spark.driver.memoryOverhead", "100m");
        assertEquals(9 * GIB + 100 * MIB, of(false, more).driverBytes());
    }

    /** Whose container has room for the store in what is called overhead. */
    @Test
    void aDriversOverheadIsNoMoreThanUsual() {
        Map<String, String> wide = conf("k8s://https://127.0.0.1", "spark.driver.memoryOverhead",
                "20g", "spark.driver.memoryOverheadFactor", "3");
        assertEquals(8 * GIB + (long) (0.1 * 8 * GIB), of(true, wide).driverBytes());
    }

    @Test
    void aLocalClusterHasItsWorkers() {
        Processes found = of(false, conf("local-cluster[2,1,1024]"));
        assertEquals(2, found.executors());
        assertEquals(EXECUTOR, found.executorBytes());
        Map<String, String> small = conf("local-cluster[2, 4, 4096]", "spark.executor.cores", "1");
        assertExecutors(8, 8, small);
        small.put("spark.executor.memory", "3g");
        assertExecutors(2, 2, small);
        assertEquals(8, of(false, small).cores());
    }

    @Test
    void aStandaloneClusterIsKnownWhereItsCoresAre() {
        assertExecutors(1, 1, conf("spark://one:7077"));
        assertExecutors(4, 1, conf("spark://one:7077", "spark.executor.cores", "4"));
        Map<String, String> known = conf("spark://one:7077", "spark.executor.cores", "2",
                "spark.cores.max", "6");
        assertExecutors(3, 3, known);
        known.put("spark.dynamicAllocation.enabled", "true");
        known.put("spark.dynamicAllocation.maxExecutors", "2");
        assertExecutors(2, 1, known);
    }

    @Test
    void otherClustersSayHowManyAndHaveContainersOfTheirOwn() {
        assertExecutors(2, 2, conf("yarn"));
        Map<String, String> five = conf("k8s://https://127.0.0.1", "spark.executor.instances", "5",
                "spark.executor.memoryOverheadFactor", "0.5", "spark.executor.memory", "2g");
        assertExecutors(5, 5, five);
        assertEquals(3 * GIB, of(false, five).executorBytes());
        assertEquals(0, of(true, five).executors());
    }

    @Test
    void aSizeIsBytesOrAShare() {
        Map<String, String> conf = conf("local");
        assertNull(Settings.storeBytes(conf::get, 10 * GIB));
        conf.put(Settings.MEMORY, "0.25");
        assertEquals(5 * GIB / 2, Settings.storeBytes(conf::get, 10 * GIB).bytes());
        conf.put(Settings.MEMORY, "3g");
        assertEquals(3 * GIB, Settings.storeBytes(conf::get, 10 * GIB).bytes());
        conf.put(Settings.STORE_BYTES, "1g");
        assertEquals(new MemoryPlan.Asked("spark.plasmon.store.bytes=1g", GIB),
                Settings.storeBytes(conf::get, 10 * GIB));
        conf.put(Settings.STORE_BYTES, "0");
        for (String wrong : new String[] {"0", "1.5", "-1", "much", "0.0", "30%"}) {
            conf.put(Settings.MEMORY, wrong);
            String said = assertThrows(IllegalArgumentException.class,
                    () -> Settings.storeBytes(conf::get, GIB)).getMessage();
            assertEquals("spark.plasmon.memory must be a share of the memory between 0 and 1, "
                    + "such as 0.3, or bytes, such as 4g; found " + wrong, said);
        }
    }
}
