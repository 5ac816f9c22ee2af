package org.plasmon.shuffle;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;

/** A store of a test's own, with a connection; both end with the test. */
final class StoreFixture implements AutoCloseable {
    final Path folder;
    final NativeStore store;

    StoreFixture(String capacityBytes) throws IOException {
        this(capacityBytes, "");
    }

    /** @param spillFolder where it spills; empty for nowhere */
    StoreFixture(String capacityBytes, String spillFolder) throws IOException {
        folder = Files.createTempDirectory("plasmon-test-");
        String socket = folder.resolve("store.sock").toString();
        Path daemon = NativeLibrary.extractDaemon(folder);
        NativeStore.start(daemon.toString(), Map.of(
                "socket", socket,
                "end_with_last_client", "true",
                "keeper", "false",
                "spill_dir", spillFolder,
                "capacity_bytes", capacityBytes));
        store = connect("spark-test", false);
    }

    /** Another connection to it. */
    NativeStore connect(String namespace, boolean awaits) throws StoreException {
        String socket = folder.resolve("store.sock").toString();
        return NativeStore.connect(socket, "test", namespace, 5_000, awaits);
    }

    /** Content with sections of these lengths, filled from a seed, one record to 10 bytes. */
    static RunContent content(long seed, int... lengths) {
        byte[][] sections = new byte[lengths.length][];
        Random random = new Random(seed);
        for (int partition = 0; partition < lengths.length; partition++) {
            sections[partition] = new byte[lengths[partition]];
            random.nextBytes(sections[partition]);
        }
        return new RunContent() {
            @Override
            public int bytes(int partition) {
                return sections[partition].length;
            }

            @Override
            public int records(int partition) {
                return sections[partition].length / 10;
            }

            @Override
            public void copyTo(int partition, java.nio.ByteBuffer target, int at) {
                target.put(at, sections[partition]);
            }
        };
    }

    /** The bytes of a partition in such content. */
    static byte[] section(RunContent content, int partition) {
        byte[] bytes = new byte[content.bytes(partition)];
        content.copyTo(partition, java.nio.ByteBuffer.wrap(bytes), 0);
        return bytes;
    }

    @Override
    public void close() throws IOException {
        store.shutdown();
        store.close();
        try (var entries = Files.list(folder)) {
            for (Path entry : entries.toList()) {
                Files.deleteIfExists(entry);
            }
        }
        Files.deleteIfExists(folder);
    }
}
