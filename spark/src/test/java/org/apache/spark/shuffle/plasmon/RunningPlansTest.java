package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

import org.apache.spark.shuffle.plasmon.MemoryPlan.Others;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RunningPlansTest {
    private static Others seen(List<Path> folders, Path own, long store, long processes)
            throws IOException {
        Others[] seen = new Others[1];
        RunningPlans.plan(() -> folders, own, processes, others -> {
            seen[0] = others;
            return new MemoryPlan(store, false, "");
        });
        return seen[0];
    }

    @Test
    void everyApplicationSeesThoseThatPlannedBefore(@TempDir Path temporary) throws IOException {
        Path first = Files.createDirectory(temporary.resolve("1"));
        Path second = Files.createDirectory(temporary.resolve("2"));
        Path damaged = Files.createDirectory(temporary.resolve("3"));
        Files.writeString(damaged.resolve("plan"), "-1 5");
        Path empty = Files.createDirectory(temporary.resolve("4"));
        List<Path> all = List.of(first, second, damaged, empty, temporary.resolve("5"));
        assertEquals(new Others(0, 0, 0), seen(all, first, 70, 30));
        assertEquals(new Others(1, 70, 30), seen(all, second, 5, 6));
        assertEquals(new Others(1, 5, 6), seen(all, first, 70, 30));
        assertEquals(new Others(2, 75, 36), seen(all, empty, 1, 1));
    }
}
