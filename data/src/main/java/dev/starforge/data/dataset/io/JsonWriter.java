package dev.starforge.data.dataset.io;

import dev.starforge.data.git.BlobReader;
import dev.starforge.data.git.ByteBuilder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;

/**
 * Writes one JSON value after another into bytes. Patches are most of what a dataset holds and are bytes already; a
 * general writer would decode them into characters only to encode them again, which takes longer than computing them.
 */
public final class JsonWriter {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    /** For a byte its short escape, 1 where it needs the long one, 0 where it stands for itself. */
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

    /** What has been written since the last {@link #spill}. */
    public ByteBuilder bytes() {
        return out;
    }

    /** Hands a lot of text on; a little stays. */
    public void spill(TempFile spool) {
        if (out.size() > SPILL) {
            finish(spool);
        }
    }

    public void finish(TempFile spool) {
        if (out.size() > 0) {
            last = out.at(out.size() - 1);
            spool.append(out);
            out.clear();
        }
    }

    /** Goes on with an object whose beginning is elsewhere. */
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

    /** Bytes that should be UTF-8; if they are not, each is a character, and a field before them says so. */
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

    /** Returns whether all of it was ASCII. */
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
