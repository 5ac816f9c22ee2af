package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.spark.shuffle.plasmon.MemoryPlan.Asked;
import org.apache.spark.shuffle.plasmon.MemoryPlan.Others;
import org.apache.spark.shuffle.plasmon.MemoryPlan.Place;
import org.apache.spark.shuffle.plasmon.MemoryPlan.Processes;
import org.junit.jupiter.api.Test;

/** A store took half of a machine whose other half was not free: two took all of it. */
class MemoryPlanTest {
    private static final long MIB = 1 << 20;
    private static final long GIB = 1 << 30;
    private static final Place MACHINE = new Place(16 * GIB, false);
    private static final Others NONE = new Others(0, 0, 0);

    private static Processes processes(long driverGib, long executorGib, int executors) {
        return new Processes(driverGib * GIB, executorGib * GIB, executors, executors, 4);
    }

    private static String refusal(Place place, Processes own, Others others, Asked asked) {
        return assertThrows(
                IllegalArgumentException.class,
                () -> MemoryPlan.of(place, own, others, asked)).getMessage();
    }

    @Test
    void withoutASettingItIsHalfOfTheMachine() {
        MemoryPlan plan = MemoryPlan.of(MACHINE, processes(1, 2, 2), NONE, null);
        assertEquals(8 * GIB, plan.storeBytes());
        assertFalse(plan.isTight());
        assertEquals("the store holds up to 8.0 GiB of the machine's 16.0 GiB; beside it: the "
                + "driver 1.0 GiB, 2 executors of 2.0 GiB", plan.sentence());
    }

    @Test
    void orWhatTheProcessesLeave() {
        // 16 - 2 - 8 leave 6, of which a ninth is for what is being freed.
        MemoryPlan plan = MemoryPlan.of(MACHINE, processes(2, 4, 2), NONE, null);
        assertEquals(6 * GIB / 9 * 8, plan.storeBytes());
        assertFalse(plan.isTight());
    }

    @Test
    void theStoresOfTwoApplicationsFitBesideTheirProcesses() {
        Processes own = processes(2, 0, 0);
        MemoryPlan first = MemoryPlan.of(MACHINE, own, NONE, null);
        Others others = new Others(1, first.storeBytes(), own.bytes());
        MemoryPlan second = MemoryPlan.of(MACHINE, own, others, null);
        assertEquals(8 * GIB, first.storeBytes());
        assertEquals((16 - 2 - 2 - 9) * GIB / 9 * 8, second.storeBytes());
        assertFalse(second.isTight());
        assertTrue(second.sentence().endsWith("the driver 2.0 GiB, 1 other application 11.0 GiB"));
    }

    @Test
    void aDefaultHasAFloorAndThenAWarning() {
        MemoryPlan plan = MemoryPlan.of(MACHINE, processes(15, 0, 0), NONE, null);
        assertEquals(GIB / 9 * 8, plan.storeBytes());
        plan = MemoryPlan.of(MACHINE, processes(30, 0, 0), NONE, null);
        assertEquals(4 * 64 * MIB, plan.storeBytes());
        assertTrue(plan.isTight());
        assertTrue(plan.sentence().contains("lower spark.driver.memory"), plan.sentence());
        // More cores than the memory can serve: never more than half.
        Place small = new Place(256 * MIB, true);
        assertEquals(128 * MIB, MemoryPlan.of(small, processes(1, 0, 0), NONE, null).storeBytes());
    }

    @Test
    void whatIsAskedForIsGivenOrRefused() {
        Asked asked = new Asked("spark.plasmon.memory=0.75", 12 * GIB);
        MemoryPlan plan = MemoryPlan.of(MACHINE, processes(2, 1, 2), NONE, asked);
        assertEquals(12 * GIB, plan.storeBytes());
        assertTrue(plan.isTight(), "with what is being freed it may be more than there is");
        String refused = refusal(new Place(16 * GIB, true), processes(2, 1, 3), NONE, asked);
        assertEquals("spark.plasmon.memory=0.75 asks for a store of 12.0 GiB, which does not fit "
                + "into the container's 16.0 GiB beside the application's processes (the driver "
                + "2.0 GiB, 3 executors of 1.0 GiB): lower spark.plasmon.memory=0.75 to at most "
                + "11.0 GiB, or lower spark.driver.memory, spark.executor.memory or the number of "
                + "executors", refused);
    }

    @Test
    void onlyWhatIsCertainRefusesIt() {
        Asked asked = new Asked("spark.plasmon.store.bytes=12g", 12 * GIB);
        Processes maybe = new Processes(GIB, GIB, 16, 1, 16);
        assertEquals(12 * GIB, MemoryPlan.of(MACHINE, maybe, NONE, asked).storeBytes());
        // The limits of another application's processes may never be reached; its store is.
        Others heaps = new Others(1, 0, 8 * GIB);
        assertEquals(12 * GIB, MemoryPlan.of(MACHINE, maybe, heaps, asked).storeBytes());
        String refused = refusal(MACHINE, maybe, new Others(1, 4 * GIB, 0), asked);
        assertTrue(refused.contains("the stores of other applications that run (4.0 GiB)"));
    }
}
