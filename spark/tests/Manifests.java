import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;

import io.fabric8.kubernetes.client.utils.Serialization;

/**
 * Reads manifests with the Kubernetes client that Spark brings, and prints each document as a line
 * of JSON. A field that its kind does not have is an error.
 */
public final class Manifests {
    private static final String MODEL = "io.fabric8.kubernetes";

    private Manifests() {}

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            for (String document : Files.readString(Path.of(file)).split("(?m)^---\\s*$")) {
                Object read = Serialization.unmarshal(document);
                check(read, file);
                System.out.println(Serialization.asJson(read));
            }
        }
    }

    private static void check(Object read, String place) throws IllegalAccessException {
        if (read instanceof Collection<?> all) {
            for (Object one : all) {
                check(one, place);
            }
            return;
        }
        if (read == null || !read.getClass().getName().startsWith(MODEL) || read instanceof Enum) {
            return;
        }
        for (Class<?> type = read.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers()) || type == Object.class) {
                    continue;
                }
                field.setAccessible(true);
                Object value = field.get(read);
                if (!field.getName().equals("additionalProperties")) {
                    check(value, place + "." + field.getName());
                } else if (value instanceof Map<?, ?> unknown && !unknown.isEmpty()) {
                    throw new IllegalArgumentException(place + " has unknown " + unknown.keySet());
                }
            }
        }
    }
}
