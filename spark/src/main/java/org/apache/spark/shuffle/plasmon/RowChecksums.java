package org.apache.spark.shuffle.plasmon;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.lang.reflect.Method;

import org.apache.spark.ShuffleDependency;

/**
 * The checksums of rows that Spark 4.1 and later keeps where it is asked to, to find out whether
 * two attempts at a map task wrote the same rows in whatever order. Earlier versions know none.
 */
final class RowChecksums {
    private static final String CLASS = "org.apache.spark.shuffle.checksum.RowBasedChecksum";
    private static final RowChecksums NONE = new RowChecksums(null);
    private static final Method OF_DEPENDENCY = ofDependency();
    private static final MethodHandle UPDATE = handle("update", MethodType.methodType(
            Object.class, Object.class, Object.class, Object.class));
    private static final MethodHandle VALUE = handle("getAggregatedChecksumValue",
            MethodType.methodType(long.class, Object.class));

    private final Object checksums;
    private final Object[] byPartition;

    private RowChecksums(Object checksums) {
        this.checksums = checksums;
        this.byPartition = (Object[]) checksums;
    }

    static RowChecksums of(ShuffleDependency<?, ?, ?> dependency) {
        if (OF_DEPENDENCY == null || UPDATE == null || VALUE == null) {
            return NONE;
        }
        try {
            Object checksums = OF_DEPENDENCY.invoke(dependency);
            return Array.getLength(checksums) == 0 ? NONE : new RowChecksums(checksums);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("Spark's checksums of rows cannot be read", error);
        }
    }

    private static Method ofDependency() {
        try {
            return ShuffleDependency.class.getMethod("rowBasedChecksums");
        } catch (NoSuchMethodException earlierLine) {
            return null;
        }
    }

    /** A method of Spark's class, for arguments whose types this class does not know. */
    private static MethodHandle handle(String name, MethodType type) {
        try {
            for (Method method : Class.forName(CLASS).getMethods()) {
                if (method.getName().equals(name)) {
                    MethodHandle found = MethodHandles.publicLookup().unreflect(method);
                    return name.equals("update")
                            ? found.asType(type.changeReturnType(void.class))
                            : found.asType(type);
                }
            }
            return null;
        } catch (ReflectiveOperationException earlierLine) {
            return null;
        }
    }

    /** Counts a row in. */
    void update(int partition, Object key, Object value) {
        if (byPartition == null) {
            return;
        }
        try {
            UPDATE.invokeExact(byPartition[partition], key, value);
        } catch (Throwable error) {
            throw new IllegalStateException("Spark's checksum of a row failed", error);
        }
    }

    /** The value for the status of the output; 0 where checksums are off. */
    long value() {
        if (checksums == null) {
            return 0;
        }
        try {
            return (long) VALUE.invokeExact(checksums);
        } catch (Throwable error) {
            throw new IllegalStateException("Spark's checksum of rows failed", error);
        }
    }
}
