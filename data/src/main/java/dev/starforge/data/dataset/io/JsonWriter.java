package dev.starforge.data.dataset.io;

import dev.starforge.data.git.BlobReader;
import dev.starforge.data.git.ByteBuilder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;

/**
 * Writes JSON values one after another as bytes. Patches are most of a dataset and are bytes already; a general writer would
 * decode and encode them again, which takes longer than computing them.
 */
public final class JsonWriter {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    /** For each byte its short escape, 1 if it needs a unicode escape, or 0 if it is written unchanged. */
    private static final byte[] ESCAPES = new byte[256];

    static {
        Arrays.fill(ESCAPES, 0, ' ', (byte) 1);
        ESCAPES['"'] = '"';
        ESCAPES['\\'] = '\\';
        ESCAPES['\n'] = 'n';
        ESCAPES['\r'] = 'r';
        ESCAPES['\t'] = 't';
    }

    private static final int SPILL = 1 << 20;

    private final ByteBuilder out = new ByteBuilder();
    private byte last = '\n';

    /** The bytes since the last {@link #spill}. */
    public ByteBuilder bytes() {
        return out;
    }

    /** Moves the bytes to the file if there are many. */
    public void spill(TempFile file) {
        if (out.size() > SPILL) {
            finish(file);
        }
    }

    public void finish(TempFile file) {
        if (out.size() > 0) {
            last = out.at(out.size() - 1);
            file.append(out);
            out.clear();
        }
    }

    /** Continues an object whose beginning was written elsewhere. */
    public JsonWriter continueObject() {
        last = '}';
        return this;
    }

    public JsonWriter begin() {
        comma();
        out.add('{');
        return this;
    }

    public JsonWriter end() {
        out.add('}');
        return this;
    }

    public JsonWriter list(String name) {
        name(name);
        out.add('[');
        return this;
    }

    public JsonWriter add(String value) {
        comma();
        string(value.getBytes(StandardCharsets.UTF_8));
        return this;
    }

    public JsonWriter endList() {
        out.add(']');
        return this;
    }

    public JsonWriter newline() {
        out.add('\n');
        return this;
    }

    public JsonWriter object(String name) {
        name(name);
        out.add('{');
        return this;
    }

    public JsonWriter put(String name, String value) {
        name(name);
        string(value.getBytes(StandardCharsets.UTF_8));
        return this;
    }

    public JsonWriter put(String name, long value) {
        name(name);
        out.addLatin(Long.toString(value));
        return this;
    }

    public JsonWriter put(String name, boolean value) {
        name(name);
        out.addLatin(Boolean.toString(value));
        return this;
    }

    public JsonWriter put(String name, Collection<String> values) {
        list(name);
        values.forEach(this::add);
        return endList();
    }

    /** Puts bytes as text. If they are not UTF-8, each byte becomes a character and a field before them names the encoding. */
    public JsonWriter put(String name, ByteBuilder value) {
        int before = out.size();
        name(name);
        if (string(value.array(), value.size()) || BlobReader.isUtf8(value)) {
            return this;
        }
        out.cut(before);
        put(name + "_encoding", "latin1");
        return put(name, new String(value.array(), 0, value.size(), StandardCharsets.ISO_8859_1));
    }

    private void name(String name) {
        comma();
        out.add('"').addLatin(name).add('"').add(':');
    }

    private void comma() {
        byte before = out.size() == 0 ? last : out.at(out.size() - 1);
        if (before != '{' && before != '[' && before != '\n') {
            out.add(',');
        }
    }

    private void string(byte[] utf8) {
        string(utf8, utf8.length);
    }

    /** Returns true if the string is ASCII. */
    private boolean string(byte[] utf8, int length) {
        out.add('"');
        out.reserve(length);
        int copied = 0;
        int seen = 0;
        for (int i = 0; i < length; i++) {
            seen |= utf8[i];
            if (ESCAPES[utf8[i] & 0xFF] != 0) {
                copied = escape(utf8, copied, i);
            }
        }
        out.add(utf8, copied, length).add('"');
        return seen >= 0;
    }

    private int escape(byte[] utf8, int from, int at) {
        out.add(utf8, from, at).add('\\');
        byte b = utf8[at];
        if (ESCAPES[b] == 1) {
            out.addLatin("u00").add(HEX[b >> 4]).add(HEX[b & 15]);
        } else {
            out.add(ESCAPES[b]);
        }
        return at + 1;
    }
}
