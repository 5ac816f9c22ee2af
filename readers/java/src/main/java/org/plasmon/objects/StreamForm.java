package org.plasmon.objects;

import static org.plasmon.objects.PloException.broken;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.ForeignAllocation;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.memory.util.MemoryUtil;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.NullVector;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.DenseUnionVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageMetadataResult;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;

/**
 * The stream form, which Arrow reads. Arrow's vectors lie in the object's own memory when that is
 * direct, else in a copy of it; what stays of them are slices of the object at the same places, so
 * there is nothing to close.
 */
final class StreamForm {
  private static final byte[] SCHEMA = resource("schema.bin");
  private static final byte[] BATCH = resource("batch.bin");
  private static final int BODY_AT = SCHEMA.length + BATCH.length;

  // The places of the numbers in the batch message: layout.json of the specification.
  static final int BODY_LENGTH_AT = 32;
  static final int NODES_AT = 88;
  static final int NODE_COUNT = 65;
  static final int BUFFERS_AT = 1136;
  static final int BUFFER_COUNT = 130;
  private static final int PAIR_BYTES = 16;
  private static final int ALIGN = 64;

  /** The field node of the slots of type null: the only one with nulls, and with nothing else. */
  private static final int NULL_NODE_AT = NODES_AT + 2 * PAIR_BYTES;

  private static final long END_MARKER = 0xffff_ffffL;

  private final ByteBuffer object;
  private long bodyAddress;
  private final long[] sizes = new long[Size.ALL.length];
  private final List<ArrowBuf> buffers = new ArrayList<>();
  private int sizeCount;

  private StreamForm(ByteBuffer object) {
    this.object = object;
  }

  /** The tables of an object in stream form. */
  static Tables read(ByteBuffer object) {
    int bodyBytes = checkMessages(object);
    try (BufferAllocator allocator = new RootAllocator()) {
      return new StreamForm(object).load(allocator, bodyBytes);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private Tables load(BufferAllocator allocator, int bodyBytes) throws IOException {
    Schema schema = MessageSerializer.deserializeSchema(channel(SCHEMA));
    byte[] message = new byte[BATCH.length];
    object.get(SCHEMA.length, message);
    MessageMetadataResult metadata = MessageSerializer.readMessage(channel(message));
    RecordBatch header = (RecordBatch) metadata.getMessage().header(new RecordBatch());
    ArrowBuf body = body(allocator, bodyBytes);
    bodyAddress = body.memoryAddress();
    try (ArrowRecordBatch batch = MessageSerializer.deserializeRecordBatch(header, body);
        VectorSchemaRoot root = VectorSchemaRoot.create(schema, allocator)) {
      new VectorLoader(root).load(batch);
      for (FieldVector column : root.getFieldVectors()) {
        column((ListVector) column);
      }
      Tables.checkSizes(sizes);
      return new Tables(sizes, columns());
    }
  }

  private ArrowBuf body(BufferAllocator allocator, int bytes) {
    if (object.isDirect()) {
      long address = MemoryUtil.getByteBufferAddress(object) + BODY_AT;
      return allocator.wrapForeignAllocation(new BorrowedMemory(bytes, address));
    }
    ArrowBuf body = allocator.buffer(bytes);
    body.setBytes(0, object.slice(BODY_AT, bytes));
    return body;
  }

  /** A column holds its table in a list of one row. */
  private void column(ListVector list) {
    FieldVector inner = list.getDataVector();
    ArrowBuf outer = list.getOffsetBuffer();
    if (outer.getInt(0) != 0 || outer.getInt(4) != inner.getValueCount()) {
      throw new PloException(
          "outer offsets " + outer.getInt(0) + " and " + outer.getInt(4) + " around "
              + inner.getValueCount() + " entries");
    }
    sizes[sizeCount++] = inner.getValueCount();
    collect(inner);
  }

  /** The inner sizes and the buffers of a vector, in the order of the format. */
  private void collect(FieldVector vector) {
    if (vector instanceof NullVector) {
      return;
    }
    List<ArrowBuf> own = vector.getFieldBuffers();
    if (vector instanceof DenseUnionVector) {
      buffers.addAll(own);
      for (FieldVector child : vector.getChildrenFromFields()) {
        sizes[sizeCount++] = child.getValueCount();
        collect(child);
      }
    } else if (vector instanceof StructVector) {
      vector.getChildrenFromFields().forEach(this::collect);
    } else {
      // The first one is the validity bitmap, which Arrow makes where there is none.
      buffers.addAll(own.subList(1, own.size()));
      if (vector instanceof ListVector list) {
        sizes[sizeCount++] = list.getDataVector().getValueCount();
        collect(list.getDataVector());
      } else if (own.size() == 3) {
        sizes[sizeCount++] = own.get(2).capacity();
      }
    }
  }

  private ByteBuffer[] columns() {
    ByteBuffer[] columns = new ByteBuffer[Column.ALL.length];
    for (Column column : Column.ALL) {
      long bytes = column.bytes(sizes);
      ArrowBuf buffer = buffers.get(column.ordinal());
      if (buffer.capacity() != bytes) {
        throw new PloException(column + " has " + buffer.capacity() + " bytes of " + bytes);
      }
      long offset = bytes == 0 ? 0 : buffer.memoryAddress() - bodyAddress;
      columns[column.ordinal()] = object.slice(Math.toIntExact(BODY_AT + offset), (int) bytes);
    }
    return columns;
  }

  /**
   * The length of the body, after both messages were found to be the constant ones, but for the
   * numbers of the batch: Arrow trusts what it reads.
   */
  private static int checkMessages(ByteBuffer object) {
    if (object.capacity() < SCHEMA.length
        || !object.slice(0, SCHEMA.length).equals(wrap(SCHEMA))) {
      throw new PloException(
          "the bytes start with neither PLO1 nor the schema of version 1",
          PloException.Code.NOT_AN_OBJECT);
    }
    if (object.capacity() < BODY_AT) {
      throw PloException.cutOff(BODY_AT, object.capacity());
    }
    byte[] copy = new byte[BATCH.length];
    object.get(SCHEMA.length, copy);
    ByteBuffer message = wrap(copy);
    long bodyBytes = message.getLong(BODY_LENGTH_AT);
    for (int at = NODES_AT; at < NODES_AT + PAIR_BYTES * NODE_COUNT; at += PAIR_BYTES) {
      long length = takeNumber(message, at, Tables.ENTRIES_MAX);
      long nulls = at == NULL_NODE_AT ? length : 0;
      if (takeNumber(message, at + Long.BYTES, nulls) != nulls) {
        throw broken("a table of nulls with too few of them", at);
      }
    }
    long end = 0;
    for (int at = BUFFERS_AT; at < BUFFERS_AT + PAIR_BYTES * BUFFER_COUNT; at += PAIR_BYTES) {
      if (takeNumber(message, at, bodyBytes) != end) {
        throw broken("a buffer that does not follow the one before it", at);
      }
      long length = takeNumber(message, at + Long.BYTES, bodyBytes - end);
      end += (length + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (end != bodyBytes) {
      throw broken("a body of another length than that of its buffers", end);
    }
    message.putLong(BODY_LENGTH_AT, 0);
    if (!Arrays.equals(copy, BATCH)) {
      throw new PloException("the record batch's message is not that of an object");
    }
    if (bodyBytes > object.capacity() - BODY_AT - Long.BYTES) {
      throw PloException.cutOff(BODY_AT + bodyBytes + Long.BYTES, object.capacity());
    }
    if (object.getLong(BODY_AT + (int) bodyBytes) != END_MARKER) {
      throw new PloException("the stream does not end after its batch");
    }
    return (int) bodyBytes;
  }

  /** A number of the message, which must be within limits; it becomes 0. */
  private static long takeNumber(ByteBuffer message, int at, long most) {
    long number = message.getLong(at);
    if (number < 0 || number > most) {
      throw broken(number + " in the batch's message, at most " + most, at);
    }
    message.putLong(at, 0);
    return number;
  }

  private static ByteBuffer wrap(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(java.nio.ByteOrder.LITTLE_ENDIAN);
  }

  private static ReadChannel channel(byte[] bytes) {
    return new ReadChannel(Channels.newChannel(new ByteArrayInputStream(bytes)));
  }

  private static byte[] resource(String name) {
    try (InputStream stream = StreamForm.class.getResourceAsStream(name)) {
      if (stream == null) {
        throw new IllegalStateException("the resource " + name + " was not packaged");
      }
      return stream.readAllBytes();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Memory that the object's buffer owns. */
  private static final class BorrowedMemory extends ForeignAllocation {
    BorrowedMemory(long bytes, long address) {
      super(bytes, address);
    }

    @Override
    protected void release0() {}
  }
}
