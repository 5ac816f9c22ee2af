package org.apache.spark.shuffle.plasmon;

/** Carries Spark's checked exceptions through iterators and streams, whose methods declare none. */
final class Failures {
    private Failures() {}

    /** Throws it as it is; the type is for callers that write {@code throw}. */
    static RuntimeException unchecked(Throwable error) {
        return Failures.<RuntimeException>thrown(error);
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> T thrown(Throwable error) throws T {
        throw (T) error;
    }
}
