package dev.starforge.data.dataset.redact;

import dev.starforge.data.git.ByteBuilder;
import dev.starforge.data.git.FilePatch;
import dev.starforge.data.git.LineIndex;
import dev.starforge.text.secrets.PrivateKeys;
import dev.starforge.text.secrets.SecretFinding;
import dev.starforge.text.secrets.SecretRule;
import dev.starforge.text.secrets.SecretScanner;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Replaces secrets, which {@link SecretScanner} finds, by the placeholders {@code <KEY>}, {@code <PASSWORD>}, {@code <EMAIL>}
 * and {@code <NAME>}, and counts them.
 *
 * <p>Redaction works line by line and keeps the number of lines, also in private keys, so a redacted patch applies to the
 * redacted parent and gives the redacted child. Only the value is replaced; quotation marks and separators stay.
 */
public final class Redactor implements FilePatch.LineWriter {
    public static final String KEY = SecretRule.PROVIDER_KEY.placeholder();
    public static final String PASSWORD = SecretRule.NAMED_PASSWORD.placeholder();
    public static final String EMAIL = SecretRule.EMAIL.placeholder();
    public static final String NAME = "<NAME>";

    private static final Pattern TRAILER = Pattern.compile(
            "(?im)^((?:signed-off|co-authored|reviewed|acked|tested|reported|suggested|also|original-patch)-(?:off-)?by"
                    + "|author|committer|cc)(:\\s*+)([^<\\n]++)<");

    private final String path;
    private final Map<SecretRule, Long> counts = new EnumMap<>(SecretRule.class);
    private final Set<String> strong = new HashSet<>();
    private final List<Redactions.MaskedValue> examples = new ArrayList<>();

    public Redactor() {
        this("");
    }

    /** @param path of the redacted file, for the examples in reports */
    public Redactor(String path) {
        this.path = path;
    }

    public Redactions redactions() {
        return new Redactions(counts, examples);
    }

    public int count() {
        return (int) redactions().count();
    }

    /** The number of distinct values found by rules with few false positives; tests repeat one value many times. */
    public int strong() {
        return strong.size();
    }

    public void add(Redactor more) {
        more.counts.forEach((rule, count) -> counts.merge(rule, count, Long::sum));
        more.examples.forEach(example -> Redactions.add(examples, example));
    }

    /** Redacts text in any ASCII-compatible encoding; returns the same array if it contains no secrets. */
    public byte[] redact(byte[] bytes) {
        List<PrivateKeys.KeySpan> keys = PrivateKeys.find(bytes);
        ByteBuilder out = null;
        int copied = 0;
        int key = 0;
        int number = 1;
        for (int from = 0, to; from < bytes.length; from = to + 1, number++) {
            to = from;
            while (to < bytes.length && bytes[to] != '\n') {
                to++;
            }
            List<SecretFinding> findings = List.of();
            if (key < keys.size() && keys.get(key).from() < to) {
                PrivateKeys.KeySpan part = keys.get(key++);
                findings = List.of(new SecretFinding(part.from() - from, part.to() - from, SecretRule.PRIVATE_KEY));
            } else {
                findings = SecretScanner.scan(bytes, from, to);
            }
            if (!findings.isEmpty()) {
                out = out == null ? new ByteBuilder() : out;
                out.add(bytes, copied, from);
                boolean counted = findings.getFirst().rule() != SecretRule.PRIVATE_KEY
                        || keys.get(key - 1).first();
                out.addLatin(replace(latin(bytes, from, to), findings, counted ? number : 0));
                copied = to;
            }
        }
        return out == null ? bytes : out.add(bytes, copied, bytes.length).copy();
    }

    public String redact(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        byte[] redacted = redact(bytes);
        return redacted == bytes ? text : new String(redacted, StandardCharsets.UTF_8);
    }

    /** Decodes one character per byte: all patterns are ASCII. */
    private static String latin(byte[] bytes, int from, int to) {
        return new String(bytes, from, to - from, StandardCharsets.ISO_8859_1);
    }

    /** @param number of the line; 0 if the line continues a secret that is already counted */
    private String replace(String line, List<SecretFinding> findings, int number) {
        StringBuilder out = new StringBuilder(line.length());
        int copied = 0;
        for (SecretFinding finding : findings) {
            out.append(line, copied, finding.from()).append(finding.rule().placeholder());
            copied = finding.to();
            if (number > 0) {
                counts.merge(finding.rule(), 1L, Long::sum);
                String value = line.substring(finding.from(), finding.to());
                if (finding.rule().isStrong()) {
                    strong.add(value);
                }
                String masked = SecretFinding.masked(value);
                Redactions.add(examples, new Redactions.MaskedValue(finding.rule(), masked, path, number));
            }
        }
        return out.append(line, copied, line.length()).toString();
    }

    /** Redacts each component of a path; equal paths stay equal. */
    public static String path(String path) {
        StringBuilder shown = new StringBuilder();
        for (int from = 0, to; from <= path.length(); from = to + 1) {
            to = path.indexOf('/', from);
            to = to < 0 ? path.length() : to;
            shown.append(new Redactor().redact(path.substring(from, to))).append(to < path.length() ? "/" : "");
        }
        return shown.toString();
    }

    /** Appends a redacted line of a file that has no private keys. */
    @Override
    public void append(ByteBuilder out, LineIndex lines, int line) {
        int from = lines.start(line);
        int to = lines.end(line);
        int end = to > from && lines.bytes()[to - 1] == '\n' ? to - 1 : to;
        List<SecretFinding> findings = SecretScanner.scan(lines.bytes(), from, end);
        if (findings.isEmpty()) {
            out.add(lines.bytes(), from, to);
        } else {
            out.addLatin(replace(latin(lines.bytes(), from, end), findings, line + 1))
                    .add(lines.bytes(), end, to);
        }
    }

    /** Replaces the names in a message's trailers, and every occurrence of the given names as whole words. */
    public static String withoutNames(String message, String... names) {
        String text = TRAILER.matcher(message).replaceAll(found -> {
            String name = found.group(3);
            String blanks = name.substring(name.stripTrailing().length());
            return Matcher.quoteReplacement(found.group(1) + found.group(2) + NAME + blanks + "<");
        });
        for (String name : names) {
            if (name.length() >= 3) {
                text = withoutName(text, name);
            }
        }
        return text;
    }

    private static String withoutName(String text, String name) {
        StringBuilder out = new StringBuilder();
        int copied = 0;
        for (int at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) {
            int end = at + name.length();
            boolean word = (at == 0 || !Character.isLetterOrDigit(text.codePointBefore(at)))
                    && (end == text.length() || !Character.isLetterOrDigit(text.codePointAt(end)));
            if (word && at >= copied) {
                out.append(text, copied, at).append(NAME);
                copied = end;
            }
        }
        return out.append(text, copied, text.length()).toString();
    }
}
