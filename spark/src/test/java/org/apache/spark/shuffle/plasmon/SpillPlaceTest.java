package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The application's store spilled beside its socket in /tmp, where a cleaner removed the files. */
class SpillPlaceTest {
    private static final Path LAST = Path.of("/last/resort");

    @Test
    void theDirectoriesOfTheApplicationComeFirst(@TempDir Path given) throws Exception {
        String there = Files.createDirectory(given.resolve("there")).toString();
        String missing = given.resolve("missing").toString();
        if (!Files.getFileStore(given).type().equals("tmpfs")) {
            assertEquals(Path.of(there), SpillPlace.choose(List.of(missing, there), LAST));
        }
    }

    @Test
    void theTemporaryDirectoryAndMemoryAreNoPlaces() {
        String temporary = System.getProperty("java.io.tmpdir");
        Path chosen = SpillPlace.choose(List.of(temporary, "/dev/shm"), LAST);
        assertNotEquals(Path.of(temporary), chosen);
        assertNotEquals(Path.of("/dev/shm"), chosen);
    }
}
