package org.plasmon.objects;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Decodes UTF-8, strictly or with surrogates. */
final class Utf8 {
  private Utf8() {}

  static String decode(ByteBuffer bytes) {
    try {
      // A decoder is fast on arrays alone.
      byte[] copy = new byte[bytes.capacity()];
      bytes.get(0, copy);
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(copy)).toString();
    } catch (CharacterCodingException error) {
      throw new PloException("the object is broken: a string that is not UTF-8", error);
    }
  }

  /** UTF-8 that may encode surrogates, which Java's strings consist of anyway. */
  static String decodeSurrogates(ByteBuffer bytes) {
    StringBuilder text = new StringBuilder();
    int at = 0;
    while (at < bytes.capacity()) {
      int lead = bytes.get(at) & 0xff;
      int length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      int code = length == 1 ? lead : lead & 0x7f >> length;
      for (int more = at + 1; more < at + length; more++) {
        if (more >= bytes.capacity() || (bytes.get(more) & 0xc0) != 0x80) {
          throw broken();
        }
        code = code << 6 | bytes.get(more) & 0x3f;
      }
      if (lead >= 0x80 && lead < 0xc2 || !Character.isValidCodePoint(code)) {
        throw broken();
      }
      text.appendCodePoint(code);
      at += length;
    }
    return text.toString();
  }

  private static PloException broken() {
    return new PloException(
        "the object is broken: a string that is not UTF-8, even with surrogates");
  }
}
