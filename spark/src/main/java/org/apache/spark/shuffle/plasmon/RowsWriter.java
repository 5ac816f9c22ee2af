package org.apache.spark.shuffle.plasmon;

import java.io.IOException;
import java.io.OutputStream;

import org.apache.spark.serializer.SerializationStream;
import org.plasmon.shuffle.BufferedSections;
import org.plasmon.shuffle.PartitionedRecords;
import org.plasmon.shuffle.RecordBuffer;
import scala.Product2;
import scala.collection.Iterator;

/**
 * Writes records whose serialised form can be moved, such as SQL's rows and Kryo's objects: each is
 * serialised once as it comes, and copied once to its place in a run.
 */
final class RowsWriter<K, V> extends MapTaskWriter<K, V> {
    private final RecordBuffer buffer;
    private final PartitionedRecords rows;
    /** Where sections go through compression or encryption; empty where there is neither. */
    private final RecordBuffer changed;
    private final BufferedSections sections;

    RowsWriter(MapTask<K, V> task) {
        super(task);
        this.buffer = new RecordBuffer(task.reservation::reserve, task.reservation::release);
        this.rows = new PartitionedRecords(buffer, task.partitions, task.reservation::reserve);
        this.changed = new RecordBuffer(task.reservation::reserve, task.reservation::release);
        this.sections = new BufferedSections(changed, task.partitions);
    }

    @Override
    public void write(Iterator<Product2<K, V>> records) throws IOException {
        SerializationStream stream =
                task.dependency.serializer().newInstance().serializeStream(buffer);
        while (records.hasNext()) {
            Product2<K, V> record = records.next();
            K key = record._1();
            int partition = task.partitionOf(key);
            stream.writeKey(key, ANY);
            stream.writeValue(record._2(), ANY);
            stream.flush();
            rows.add(partition);
            task.checksums.update(partition, key, record._2());
            if (buffer.size() >= task.runBytes || rows.isPressed()) {
                seal(false);
            }
        }
        seal(true);
    }

    private void seal(boolean last) throws IOException {
        rows.arrange();
        if (task.streams.arePlain()) {
            task.seal(rows, last);
        } else {
            sealChanged(last);
        }
        rows.clear();
    }

    /** The same through compression or encryption, whose output has another length. */
    private void sealChanged(boolean last) throws IOException {
        for (int partition = 0; partition < task.partitions; partition++) {
            if (rows.records(partition) == 0) {
                continue;
            }
            int start = changed.size();
            try (OutputStream stream = task.streams.around(task.block(partition), changed)) {
                rows.writeTo(partition, stream);
            }
            sections.add(partition, start, rows.records(partition));
        }
        task.seal(sections, last);
        sections.clear();
    }
}
