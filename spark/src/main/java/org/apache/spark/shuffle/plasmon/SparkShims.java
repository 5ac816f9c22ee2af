package org.apache.spark.shuffle.plasmon;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Arrays;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.UIUtils;
import org.apache.spark.util.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.runtime.AbstractFunction0;

/**
 * What differs between the versions of Spark, found out once. This class is compiled for 3.5; the
 * few methods that later versions changed are distinguished by their number of parameters.
 */
final class SparkShims {
    private static final Logger LOG = LoggerFactory.getLogger(SparkShims.class);
    private static final MethodHandle MAP_STATUS = mapStatusMethod();

    private SparkShims() {}

    /** The error for a version of Spark that this jar was not made for. */
    private static IllegalStateException unknown(String what, Throwable cause) {
        return new IllegalStateException(
                "the " + what + " of this version of Spark differs from that of 3.5 and 4.x, which "
                        + "Plasmon's shuffle supports", cause);
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

    /** The stages of a job that starts; Scala 2.13 returns another kind of sequence. */
    @SuppressWarnings("unchecked")
    static Iterator<StageInfo> stages(SparkListenerJobStart event) {
        return ((Seq<StageInfo>) property(event, "stageInfos")).iterator();
    }

    /** Of an event of SQL's. */
    static long executionId(SparkListenerEvent event) {
        return (Long) property(event, "executionId");
    }

    /** The context that is being constructed in this process; {@code null} where none is known. */
    static SparkContext startingContext() {
        try {
            Field field = SparkContext$.class.getDeclaredField("contextBeingConstructed");
            field.setAccessible(true);
            Object found = field.get(SparkContext$.MODULE$);
            return found instanceof Option<?> option && option.isDefined()
                    ? (SparkContext) option.get()
                    : null;
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            LOG.debug("it is not known whether a context is being constructed", unknown);
            return null;
        }
    }

    private static Object property(SparkListenerEvent event, String name) {
        try {
            return event.getClass().getMethod(name).invoke(event);
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw unknown(name + " of " + event.getClass().getSimpleName(), error);
        }
    }

    /**
     * A page of Spark's UI with this content, as a sequence of nodes. The request is one of
     * {@code javax.servlet} or {@code jakarta.servlet}; what else there is to say, more from one
     * version to the next, is left as it is by default.
     */
    static Object page(Object request, String title, Object content, SparkUITab tab) {
        try {
            Method method = Arrays.stream(UIUtils.class.getMethods())
                    .filter(it -> it.getName().equals("headerSparkPage"))
                    .findFirst()
                    .orElseThrow();
            Object[] arguments = new Object[method.getParameterCount()];
            Arrays.fill(arguments, false);
            arguments[0] = request;
            arguments[1] = title;
            arguments[2] = new AbstractFunction0<Object>() {
                @Override
                public Object apply() {
                    return content;
                }
            };
            arguments[3] = tab;
            arguments[4] = Option.empty();
            return method.invoke(null, arguments);
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw unknown("headerSparkPage", error);
        }
    }

    /** The local directories that the application was given; 4.3 asks for another type there. */
    static String[] localDirectories(SparkConf conf) {
        try {
            Method method = Arrays.stream(Utils.class.getMethods())
                    .filter(it -> it.getName().equals("getConfiguredLocalDirs"))
                    .filter(it -> it.getParameterCount() == 1)
                    .findFirst()
                    .orElseThrow();
            return (String[]) method.invoke(null, conf);
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw unknown("getConfiguredLocalDirs", error);
        }
    }
}
