package org.apache.spark.shuffle.plasmon;

import java.io.IOException;

import org.apache.spark.serializer.SerializationStream;
import org.apache.spark.serializer.SerializerInstance;
import org.plasmon.shuffle.BufferedPartitions;
import org.plasmon.shuffle.RecordBuffer;
import scala.Product2;
import scala.collection.Iterator;

/**
 * Writes records whose serialised form cannot be moved to few partitions: each partition has a
 * stream of its own, into which records are serialised as they come.
 */
final class SectionsWriter<K, V> extends MapTaskWriter<K, V> {
    private final SerializerInstance serializer;
    private final BufferedPartitions sections;
    private final SerializationStream[] open;
    private long writtenBytes;

    SectionsWriter(MapTask<K, V> task) {
        super(task);
        this.serializer = task.dependency.serializer().newInstance();
        this.sections = new BufferedPartitions(
                task.partitions, task.reservation::reserve, task.reservation::release);
        this.open = new SerializationStream[task.partitions];
    }

    @Override
    public void write(Iterator<Product2<K, V>> records) throws IOException {
        while (records.hasNext()) {
            Product2<K, V> record = records.next();
            K key = record._1();
            int partition = task.partitionOf(key);
            RecordBuffer section = sections.section(partition);
            int before = section.size();
            SerializationStream stream = stream(partition);
            stream.writeKey(key, ANY);
            stream.writeValue(record._2(), ANY);
            sections.count(partition);
            task.checksums.update(partition, key, record._2());
            // Without what the stream still holds back, which is little.
            writtenBytes += section.size() - before;
            if (writtenBytes >= task.runBytes || section.isPressed()) {
                seal(false);
            }
        }
        seal(true);
    }

    private SerializationStream stream(int partition) {
        if (open[partition] == null) {
            open[partition] = serializer.serializeStream(
                    task.streams.around(task.block(partition), sections.section(partition)));
        }
        return open[partition];
    }

    private void seal(boolean last) throws IOException {
        for (int partition = 0; partition < open.length; partition++) {
            if (open[partition] != null) {
                open[partition].close();
                open[partition] = null;
            }
        }
        task.seal(sections, last);
        sections.clear();
        writtenBytes = 0;
    }
}
