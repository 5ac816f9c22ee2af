package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

import org.plasmon.shuffle.NativeStore;

/** How much memory this process and what it starts can have. */
final class MachineMemory {
    private static final Path FILE = Path.of("/proc/meminfo");
    private static final String TOTAL = "MemTotal:";

    private MachineMemory() {}

    /** The machine's memory, or what control groups allow of it. */
    static MemoryPlan.Place read() throws IOException {
        long machine = total(Files.readString(FILE));
        long limit = NativeStore.memoryLimit();
        boolean isContainer = limit > 0 && limit < machine;
        return new MemoryPlan.Place(isContainer ? limit : machine, isContainer);
    }

    private static long total(String text) throws IOException {
        for (String line : text.split("\n")) {
            if (line.startsWith(TOTAL)) {
                String[] words = line.substring(TOTAL.length()).trim().split(" ");
                return Long.parseLong(words[0]) << 10;
            }
        }
        throw new IOException(FILE + " does not say how much memory there is");
    }
}
