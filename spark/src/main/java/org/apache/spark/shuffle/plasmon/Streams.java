package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.function.IntFunction;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.serializer.SerializerManager;
import org.apache.spark.storage.BlockId;

/**
 * What is put around the bytes of a section: Spark's encryption where that is on, its compression
 * where the application asks for it, and usually nothing.
 */
final class Streams {
    /** What a compressed stream has beside its content, with the codec of an application. */
    private record Frame(SerializerManager of, long bytes) {}

    private static volatile Frame frame;

    private final SerializerManager serializers;
    private final boolean compress;

    private Streams(SerializerManager serializers, boolean compress) {
        this.serializers = serializers;
        this.compress = compress;
    }

    static Streams of(SparkConf conf) {
        return new Streams(SparkEnv.get().serializerManager(), Settings.compress(conf));
    }

    /** Whether sections are just the records' bytes. */
    boolean arePlain() {
        return !compress && !serializers.encryptionEnabled();
    }

    /** What Spark's own manager compresses a section with; nothing where that is off. */
    OutputStream compressed(BlockId block, OutputStream stream) {
        return serializers.wrapForCompression(block, stream);
    }

    /** The sizes to report of an output whose sections are these blocks. */
    ReportedSizes reportedSizes(IntFunction<BlockId> blocks) {
        ReportedSizes.Compression compression =
                (partition, to) -> compressed(blocks.apply(partition), to);
        return new ReportedSizes(compression, frameBytes(compression));
    }

    /** The same for all tasks of an application: it has one codec. */
    private long frameBytes(ReportedSizes.Compression compression) {
        Frame known = frame;
        if (known == null || known.of != serializers) {
            try {
                known = new Frame(serializers, ReportedSizes.frameBytes(compression));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            frame = known;
        }
        return known.bytes;
    }

    OutputStream around(BlockId block, OutputStream stream) {
        return compress
                ? serializers.wrapStream(block, stream)
                : serializers.wrapForEncryption(stream);
    }

    InputStream around(BlockId block, InputStream stream) {
        return compress
                ? serializers.wrapStream(block, stream)
                : serializers.wrapForEncryption(stream);
    }
}
