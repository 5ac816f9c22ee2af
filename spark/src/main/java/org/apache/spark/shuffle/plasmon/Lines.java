package org.apache.spark.shuffle.plasmon;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;

import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.collection.ExternalSorter;
import scala.Option;
import scala.math.Ordering;

/**
 * What differs between the lines of Spark, found out once. This class is compiled for 3.5; what
 * later lines changed in the few places that matter is told apart by the number of parameters.
 */
final class Lines {
    private static final MethodHandle MAP_STATUS = mapStatusMethod();
    private static final Constructor<?> SORTER = sorterConstructor();

    private Lines() {}

    /** A line of Spark that this jar was not made for. */
    private static IllegalStateException unknown(String what, Throwable cause) {
        return new IllegalStateException(
                "this version of Spark has another " + what + " than 3.5 and 4.x had; Plasmon's "
                        + "shuffle does not know it", cause);
    }

    private static MethodHandle mapStatusMethod() {
        try {
            Class<?> companion = Class.forName(MapStatus.class.getName() + "$");
            Object module = companion.getField("MODULE$").get(null);
            Method apply = Arrays.stream(companion.getMethods())
                    .filter(method -> method.getName().equals("apply"))
                    .findFirst()
                    .orElseThrow();
            int parameters = apply.getParameterCount();
            MethodHandle bound = MethodHandles.publicLookup().unreflect(apply).bindTo(module);
            if (parameters == 3) {
                // 3.5 and 4.0 know no checksum of rows.
                bound = MethodHandles.dropArguments(bound, 3, long.class);
            } else if (parameters != 4) {
                throw new IllegalStateException(apply.toString());
            }
            return bound;
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw unknown("MapStatus", error);
        }
    }

    /** The status of a map task's output. */
    static MapStatus mapStatus(
            BlockManagerId location, long[] bytes, long mapId, long checksum) {
        try {
            return (MapStatus) MAP_STATUS.invoke(location, bytes, mapId, checksum);
        } catch (Throwable error) {
            throw unknown("MapStatus", error);
        }
    }

    private static Constructor<?> sorterConstructor() {
        return Arrays.stream(ExternalSorter.class.getConstructors())
                .filter(made -> made.getParameterCount() == 5 || made.getParameterCount() == 6)
                .findFirst()
                .orElseThrow(() -> unknown("ExternalSorter", null));
    }

    /** Spark's own sorter for what a reduce task reads. */
    @SuppressWarnings("unchecked")
    static <K, C> ExternalSorter<K, C, C> sorter(
            TaskContext context, Ordering<K> ordering, Serializer serializer) {
        Object[] arguments = new Object[SORTER.getParameterCount()];
        arguments[0] = context;
        arguments[1] = Option.empty();
        arguments[2] = Option.empty();
        arguments[3] = Option.apply(ordering);
        arguments[4] = serializer;
        if (arguments.length > 5) {
            // The checksums of rows, which are of the map side.
            arguments[5] = Array.newInstance(SORTER.getParameterTypes()[5].getComponentType(), 0);
        }
        try {
            return (ExternalSorter<K, C, C>) SORTER.newInstance(arguments);
        } catch (InvocationTargetException error) {
            throw unknown("ExternalSorter", error.getCause());
        } catch (ReflectiveOperationException error) {
            throw unknown("ExternalSorter", error);
        }
    }
}
