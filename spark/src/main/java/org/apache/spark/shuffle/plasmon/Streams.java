package org.apache.spark.shuffle.plasmon;

import java.io.InputStream;
import java.io.OutputStream;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.serializer.SerializerManager;
import org.apache.spark.storage.BlockId;

/**
 * What is put around the bytes of a section: Spark's encryption where that is on, its compression
 * where the application asks for it, and usually nothing.
 */
final class Streams {
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
