package org.plasmon.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Every golden vector is what its description says; damaged ones are refused, or are a value. */
final class GoldenTest {
  private static final Path SPEC = Path.of(System.getProperty("plasmon.spec"));
  private static final int MUTATIONS = 2000;
  private static final int MUTATED_BYTES_MAX = 50_000;

  private static List<Path> vectors() throws IOException {
    try (Stream<Path> files = Files.list(SPEC)) {
      return files.filter(file -> file.toString().endsWith(".plo")).sorted().toList();
    }
  }

  private static JsonNode description(Path vector) throws IOException {
    String name = vector.getFileName().toString().replaceFirst("(\\.small|\\.stream)?\\.plo$", "");
    return new ObjectMapper().readTree(SPEC.resolve(name + ".json").toFile());
  }

  @Test
  void thereAreVectors() throws IOException {
    assertFalse(vectors().isEmpty());
  }

  @TestFactory
  Stream<DynamicTest> vectorsAreWhatTheyShouldBe() throws IOException {
    return vectors().stream()
        .map(
            vector ->
                dynamicTest(
                    vector.getFileName().toString(),
                    () -> {
                      byte[] bytes = Files.readAllBytes(vector);
                      JsonNode want = description(vector);
                      new Matching().match(Plo.read(bytes), want, "root");
                      ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length + 64);
                      direct.put(bytes).flip();
                      new Matching().match(Plo.read(direct), want, "root");
                    }));
  }

  @TestFactory
  Stream<DynamicTest> hostileVectorsAreRefused() throws IOException {
    List<Path> hostile;
    try (Stream<Path> files = Files.list(SPEC.resolve("hostile"))) {
      hostile = files.filter(file -> file.toString().endsWith(".plo")).sorted().toList();
    }
    assertTrue(hostile.size() > 100, hostile.size() + " vectors");
    return hostile.stream()
        .map(vector -> dynamicTest(vector.getFileName().toString(), () -> refuses(vector)));
  }

  private static void refuses(Path vector) throws IOException {
    String name = vector.toString().replaceFirst("\\.plo$", ".json");
    JsonNode want = new ObjectMapper().readTree(Path.of(name).toFile());
    byte[] bytes = Files.readAllBytes(vector);
    if (want.get("only_makers").asBoolean()) {
      Plo.read(bytes);
      return;
    }
    PloException error = assertThrows(PloException.class, () -> Plo.read(bytes));
    assertEquals(want.get("error").asText(), error.code().name().toLowerCase(Locale.ROOT));
    assertTrue(error.getMessage().length() > 10, error.getMessage());
  }

  @Test
  void damagedVectorsAreRefusedOrAreValues() throws IOException {
    long seed = Long.getLong("plasmon.seed", 20261120);
    Random random = new Random(seed);
    int refused = 0;
    List<Path> all = vectors();
    for (int round = 0; round < MUTATIONS; round++) {
      Path vector = all.get(random.nextInt(all.size()));
      if (Files.size(vector) > MUTATED_BYTES_MAX) {
        continue;
      }
      byte[] bytes = damaged(Files.readAllBytes(vector), random);
      try {
        Plo.read(bytes);
      } catch (PloException expected) {
        refused++;
      } catch (RuntimeException | Error other) {
        throw new AssertionError(vector + ", -Dplasmon.seed=" + seed + ", round " + round, other);
      }
    }
    assertTrue(refused > MUTATIONS / 4, refused + " refused");
  }

  private static byte[] damaged(byte[] bytes, Random random) {
    if (random.nextInt(10) == 0) {
      return Arrays.copyOf(bytes, random.nextInt(bytes.length));
    }
    int[] values = {0, 1, 0x7f, 0xff, random.nextInt(256)};
    for (int count = 1 + random.nextInt(3); count > 0; count--) {
      bytes[random.nextInt(bytes.length)] = (byte) values[random.nextInt(values.length)];
    }
    return bytes;
  }
}
