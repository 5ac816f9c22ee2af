package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

import org.apache.spark.SparkConf;

/**
 * Where the application's own store spills by default: in the local directories that the
 * application was given, as Spark itself does, else in {@code /var/tmp}.
 *
 * <p>The temporary directory, which Spark takes for want of another, is the last resort: it may lie
 * in memory, and programs tidy up what is old there.
 */
final class SpillPlace {
    /** File systems whose files lie in the memory that spilling is to free. */
    private static final Set<String> IN_MEMORY = Set.of("tmpfs", "ramfs");

    private SpillPlace() {}

    /** The folder; {@code lastResort} when no other can be used. */
    static Path choose(SparkConf conf, Path lastResort) {
        return choose(List.of(SparkShims.localDirectories(conf)), lastResort);
    }

    static Path choose(Collection<String> localDirectories, Path lastResort) {
        Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
        List<Path> places = new ArrayList<>();
        localDirectories.stream().map(Path::of).filter(it -> !it.equals(temporary))
                .forEach(places::add);
        places.add(Path.of("/var/tmp"));
        Stream<Path> usable = places.stream().map(Path::toAbsolutePath)
                .filter(SpillPlace::canBeUsed);
        return usable.findFirst().orElse(lastResort);
    }

    private static boolean canBeUsed(Path place) {
        try {
            return Files.isDirectory(place) && Files.isWritable(place)
                    && !IN_MEMORY.contains(Files.getFileStore(place).type());
        } catch (IOException gone) {
            return false;
        }
    }
}
