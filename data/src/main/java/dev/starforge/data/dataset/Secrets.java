package dev.starforge.data.dataset;

import dev.starforge.data.git.Bytes;
import dev.starforge.data.git.Lines;
import dev.starforge.data.git.Patch;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds what must not be learned and puts a placeholder in its place: {@code <KEY>}, {@code <PASSWORD>}, {@code <EMAIL>},
 * {@code <NAME>}. Known kinds of keys are found by their shape, others by being assigned to something called a password or
 * key, or by looking random: many different characters, and letters and digits that change too often to be words. Hashes
 * are not secrets, and look random too; so what is all hexadecimal is left alone.
 *
 * <p>It works line by line and keeps the number of lines, private-key blocks included: a redacted patch applies to the
 * redacted parent and gives the redacted child.
 */
final class Secrets implements Patch.Shown {
    static final String KEY = "<KEY>";
    static final String PASSWORD = "<PASSWORD>";
    static final String EMAIL = "<EMAIL>";
    static final String NAME = "<NAME>";

    private static final Pattern PROVIDER = Pattern.compile("(?<![A-Za-z0-9_])(?:"
            + "(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}"
            + "|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}"
            + "|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}|ya29\\.[0-9A-Za-z_-]{20,}"
            + "|[sr]k_(?:live|test)_[0-9A-Za-z]{16,}|sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,}"
            + "|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}"
            + "|SG\\.[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}|SK[0-9a-f]{32}|dop_v1_[0-9a-f]{64}"
            + "|eyJ[A-Za-z0-9_-]{8,}\\.eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}"
            + ")");
    private static final Pattern URL_PASSWORD =
            Pattern.compile("(?<=[a-zA-Z0-9+.-])(://[^\\s:/@\"'<>]*:)([^\\s/\"'<>]+)(?=@)");
    private static final Pattern ASSIGNED = Pattern.compile(
            "(?i)((pass(?:word|wd|phrase)?|pwd|secret|(?:api|access|auth|private|secret|signing|encryption)[_-]?key"
                    + "|(?:auth|access|api|bearer|refresh)?[_-]?token|credentials?)[A-Za-z0-9_-]{0,200}[\"']?\\s*"
                    + "(?:[:=]=?>?|,)\\s*[\"'`])([^\"'`\\s]{6,})(?=[\"'`])");

    /** Without quotation marks to the end of a line, or to a comment; what ends a statement is not part of the value. */
    private static final String BARE_VALUE = "([^\\s\"'`<(]{8,}?)(?=([;,]?)\\s*(?:\\s(?:#|//|;).*)?$)";

    private static final String BARE_NAME = "(?i)^([+\\- ]?\\s*(?:-\\s+)?(?:export\\s+|env\\s+)?[A-Z0-9_.-]{0,200}"
            + "(?:password|passwd|passphrase|pwd|_pass|secret|(?:api|access|secret|private)[_-]?key|token(?!iz))";
    private static final Pattern BARE = Pattern.compile(BARE_NAME + "[A-Z0-9_.-]{0,200}\\s*=\\s*)" + BARE_VALUE);

    /** The same with a colon, after which types and names of other things stand as well. */
    private static final Pattern BARE_COLON = Pattern.compile(BARE_NAME + "\\s*:\\s+)" + BARE_VALUE);

    /** What a template, a format or a shell fills in later. */
    private static final Pattern PLACEHOLDER = Pattern.compile("<.*|.*[$#]\\{.*|\\$\\(.*|\\{\\{.*"
            + "|\\$[A-Za-z_]+|\\$[A-Z_][A-Z0-9_]*|\\$[a-z]+(?:_[a-z0-9]+)+|\\$[A-Za-z_]+(?:->|\\[|\\.).*"
            + "|.*\\{(?:[A-Za-z_][A-Za-z0-9_.:!-]*|[0-9]*)\\}.*"
            + "|%[sdvq](?![A-Za-z0-9]).*|%\\([A-Za-z0-9_]+\\)s.*|%[A-Za-z_][A-Za-z0-9_]*%|@[A-Za-z0-9_.-]+@");

    /** A call, an element, a member, a regular expression. */
    private static final Pattern EXPRESSION =
            Pattern.compile("[A-Za-z_][A-Za-z0-9_.:]*\\(.*\\);?|[A-Za-z_][A-Za-z0-9_.]*\\[.*\\]"
                    + "|[a-z_]+(?:\\.[A-Za-z_][A-Za-z0-9_]*)+|.*(?:\\(\\?|\\[[aA0]-).*");

    /** An address or a place, which names a secret at most. */
    private static final Pattern PLACE = Pattern.compile(".*://.*|[.~]{0,2}/.*");

    private static final Pattern NAME_OF_CODE =
            Pattern.compile("[A-Za-z_][A-Za-z0-9_]*(?:(?:\\.|::|->)[A-Za-z0-9_]+)*");
    /** The end of a name, up to the value: a password, not a password's field, label or length. */
    private static final Pattern PASSWORD_NAME =
            Pattern.compile("(?is).*(?:pass(?:word|wd|phrase)?|pwd)[\"']?\\s*(?:[:=]=?>?|,)\\s*[\"'`]");

    private static final Pattern PHRASE = Pattern.compile("[A-Z][a-z]+(?:[A-Z][a-z]+)+");

    /** What speaks of passwords, or is a type. */
    private static final Pattern NO_PHRASE =
            Pattern.compile("(?i).*(?:pass|pwd|secret|token|user|login|enter|invalid|wrong|forgot|change|reset).*"
                    + "|.*(?:input|type|scalar|string|field|text|value|name|label|error|exception)");

    private static final Pattern SIGNED =
            Pattern.compile("[A-Za-z][^|\\[\\]<>(){}.:,*&?]*[!@#%^~$][^|\\[\\]<>(){}.:,*&?]*[A-Za-z]");
    private static final Pattern RANDOM =
            Pattern.compile("(?<![A-Za-z0-9+/_=.-])[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_=-])");
    private static final Pattern HASH = Pattern.compile("[0-9a-fA-F-]+");
    private static final Pattern MAIL = Pattern.compile(
            "(?<![A-Za-z0-9._%+-])(?!git@)[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9](?:[A-Za-z0-9-]{0,63}\\.){1,20}[A-Za-z]{2,63}(?![A-Za-z0-9-])");
    private static final Pattern FILE_NAME = Pattern.compile(
            "(?i).*\\.(?:png|jpe?g|gif|svg|webp|ico|css|scss|js|ts|json|html?|md|txt|java|py|rs|go|xml|ya?ml|service|socket|timer|target|mount)");
    private static final Pattern TRAILER = Pattern.compile(
            "(?im)^((?:signed-off|co-authored|reviewed|acked|tested|reported|suggested|also|original-patch)-(?:off-)?by"
                    + "|author|committer|cc)(:\\s*+)([^<\\n]++)<");
    private static final int LONGEST_VALUE = 1000;
    private static final String KEY_BEGIN = "-----BEGIN ";
    private static final String KEY_END = "-----END ";
    private static final String KEY_KIND = "PRIVATE KEY";

    private int keys;
    private int passwords;
    private int mails;
    private boolean suspected;

    int keys() {
        return keys;
    }

    int passwords() {
        return passwords;
    }

    int mails() {
        return mails;
    }

    int count() {
        return keys + passwords + mails;
    }

    /** Whether {@link #append} saw a line that was worth a look, replaced or not. */
    boolean suspected() {
        return suspected;
    }

    void add(Secrets more) {
        keys += more.keys;
        passwords += more.passwords;
        mails += more.mails;
    }

    /** The bytes with placeholders, of any encoding; the same array if there was nothing to replace. */
    byte[] redact(byte[] bytes) {
        if (!Signs.mayHoldBlock(bytes) && Signs.of(bytes, 0, bytes.length) == 0) {
            return bytes;
        }
        int before = count();
        // one character a byte: everything that is looked for is ASCII
        String redacted = redact(new String(bytes, StandardCharsets.ISO_8859_1));
        return count() == before ? bytes : new Bytes().addLatin(redacted).copy();
    }

    String redact(String text) {
        StringBuilder out = new StringBuilder(text.length());
        boolean inKey = false;
        for (int at = 0; at < text.length(); ) {
            int newline = text.indexOf('\n', at);
            int end = newline < 0 ? text.length() : newline;
            String line = text.substring(at, end);
            int begins = line.indexOf(KEY_BEGIN);
            if (!inKey && begins >= 0 && line.indexOf(KEY_KIND, begins) > 0) {
                // a key on one line, as in a string, ends there
                inKey = line.indexOf(KEY_END, begins) < 0 && endsLater(text, end);
                keys++;
                out.append(line, 0, begins).append(KEY);
                int closes = line.lastIndexOf("-----");
                out.append(inKey || closes < 0 ? "" : line.substring(closes + 5));
            } else if (inKey) {
                int closes = line.indexOf(KEY_END);
                inKey = closes < 0;
                out.append(inKey ? KEY : KEY + line.substring(Math.min(line.length(), line.lastIndexOf("-----") + 5)));
            } else {
                redactLine(line, out);
            }
            if (newline >= 0) {
                out.append('\n');
            }
            at = end + 1;
        }
        return out.toString();
    }

    /** A path in which no folder or file is called by a secret or a mail address; the same path elsewhere is the same. */
    static String path(String path) {
        byte[] bytes = path.getBytes(StandardCharsets.UTF_8);
        boolean worthALook = false;
        for (int from = 0, to; from < bytes.length && !worthALook; from = to + 1) {
            to = from;
            while (to < bytes.length && bytes[to] != '/') {
                to++;
            }
            worthALook = Signs.of(bytes, from, to) != 0;
        }
        if (!worthALook) {
            return path;
        }
        StringBuilder shown = new StringBuilder();
        for (int from = 0, to; from <= path.length(); from = to + 1) {
            to = path.indexOf('/', from);
            to = to < 0 ? path.length() : to;
            new Secrets().redactLine(path.substring(from, to), shown);
            shown.append(to < path.length() ? "/" : "");
        }
        return shown.toString();
    }

    private static boolean endsLater(String text, int from) {
        return text.indexOf(KEY_END, from) >= 0;
    }

    private void redactLine(String line, StringBuilder out) {
        byte[] bytes = line.getBytes(StandardCharsets.ISO_8859_1);
        redactLine(line, Signs.of(bytes, 0, bytes.length), out);
    }

    /** @param signs what to look for */
    void redactLine(String line, int signs, StringBuilder out) {
        String text = line;
        if ((signs & Signs.LONG) != 0) {
            text = PROVIDER.matcher(text).replaceAll(found -> key());
        }
        if ((signs & Signs.AT) != 0) {
            text = URL_PASSWORD.matcher(text).replaceAll(found -> {
                if (fillsIn(found.group(2))) {
                    return quoted(found);
                }
                passwords++;
                return Matcher.quoteReplacement(found.group(1) + PASSWORD);
            });
        }
        if ((signs & Signs.TO_QUOTED) != 0) {
            text = ASSIGNED.matcher(text)
                    .replaceAll(found -> looksSecret(found.group(3)) || looksLikePhrase(found)
                            ? assigned(found, found.group(2))
                            : quoted(found));
        }
        if ((signs & Signs.TO_BARE) != 0) {
            text = BARE.matcher(text)
                    .replaceAll(found -> looksBare(found) ? assigned(found, found.group(1)) : quoted(found));
        }
        if ((signs & Signs.TO_BARE_AFTER_COLON) != 0) {
            text = BARE_COLON
                    .matcher(text)
                    .replaceAll(
                            found -> looksBare(found) && (looksLikeNoType(found.group(2)) || looksLikeBarePhrase(found))
                                    ? assigned(found, found.group(1))
                                    : quoted(found));
        }
        if ((signs & Signs.LONG) != 0) {
            text = RANDOM.matcher(text).replaceAll(found -> looksRandom(found.group()) ? key() : quoted(found));
        }
        if ((signs & Signs.AT) != 0) {
            text = MAIL.matcher(text).replaceAll(found -> {
                if (FILE_NAME.matcher(found.group()).matches()) {
                    return quoted(found);
                }
                mails++;
                return EMAIL;
            });
        }
        out.append(text);
    }

    private String key() {
        keys++;
        return KEY;
    }

    /** Appends a line of a file without any private-key block, redacted. */
    @Override
    public void append(Bytes out, Lines lines, int line) {
        int from = lines.start(line);
        int to = lines.end(line);
        int signs = Signs.of(lines.bytes(), from, to);
        // a private-key block may begin or end here, of which a difference shows no line that is suspicious by itself
        suspected |= signs != 0 || Signs.hasDashes(lines.bytes(), from, to);
        if ((signs & ~Signs.PART_OF_KEY) == 0) {
            out.add(lines.bytes(), from, to);
        } else {
            StringBuilder text = new StringBuilder();
            redactLine(new String(lines.bytes(), from, to - from, StandardCharsets.ISO_8859_1), signs, text);
            out.addLatin(text.toString());
        }
    }

    private static String quoted(MatchResult found) {
        return Matcher.quoteReplacement(found.group());
    }

    private String assigned(MatchResult found, String name) {
        String lower = name.toLowerCase(Locale.ROOT);
        boolean password = lower.contains("pass") || lower.contains("pwd");
        if (password) {
            passwords++;
        } else {
            keys++;
        }
        return Matcher.quoteReplacement(found.group(1) + (password ? PASSWORD : KEY));
    }

    /** Not a placeholder, a variable, a sentence or a plain word. */
    private static boolean looksSecret(String value) {
        if (fillsIn(value) || matches(EXPRESSION, value)) {
            return false;
        }
        boolean digit = false;
        boolean letter = false;
        boolean sign = false;
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            digit |= c >= '0' && c <= '9';
            letter |= Character.isLetter(c);
            sign |= !Character.isLetterOrDigit(c) && "._-/:()[]".indexOf(c) < 0;
        }
        return letter && (digit || sign) && entropy(value) >= 2.5;
    }

    /** An expression takes no time that matters for a value of this length, nor the thread's stack. */
    private static boolean matches(Pattern pattern, String value) {
        return value.length() <= LONGEST_VALUE && pattern.matcher(value).matches();
    }

    private static boolean fillsIn(String value) {
        return matches(PLACEHOLDER, value);
    }

    /** A value without quotation marks is more often code: a name that ends a statement, or a place. */
    private static boolean looksBare(MatchResult found) {
        String value = found.group(2);
        boolean ends = !found.group(3).isEmpty();
        return looksSecret(value) && !matches(PLACE, value) && !(ends && matches(NAME_OF_CODE, value));
    }

    /** After a colon a single digit may be part of a type's name, and a sign alone of a type. */
    private static boolean looksLikeNoType(String value) {
        long digits = value.chars().filter(c -> c >= '0' && c <= '9').count();
        boolean sign = value.chars().anyMatch(c -> "!@#%^+=~$".indexOf(c) >= 0);
        boolean reference = value.startsWith("*") || value.startsWith("&");
        return (digits >= 2 || digits == 1 && sign) && !reference;
    }

    /** Words run together without a digit, in quotation marks, for what is called a password and nothing more. */
    private static boolean looksLikePhrase(MatchResult found) {
        return PASSWORD_NAME.matcher(found.group(1)).matches()
                && matches(PHRASE, found.group(3))
                && !matches(NO_PHRASE, found.group(3));
    }

    /**
     * The same after a colon without quotation marks, where types stand: it must have a sign that no type has, and an
     * exclamation mark at its end is no such sign unless words run together stand before it.
     */
    private static boolean looksLikeBarePhrase(MatchResult found) {
        String value = found.group(2);
        int end = value.length();
        while (end > 0 && value.charAt(end - 1) == '!') {
            end--;
        }
        String core = value.substring(0, end);
        return found.group(1).toLowerCase(Locale.ROOT).matches(".*(?:pass|pwd).*")
                && found.group(3).isEmpty()
                && !matches(NO_PHRASE, core)
                && (matches(SIGNED, core) || core.length() < value.length() && matches(PHRASE, core));
    }

    /** Random, but neither a hash nor a number of words. */
    private static boolean looksRandom(String value) {
        if (HASH.matcher(value).matches() || entropy(value) < 4.0) {
            return false;
        }
        int digits = 0;
        int upper = 0;
        int lower = 0;
        int runs = 0;
        int letters = 0;
        int kind = 0;
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            int now = Character.isDigit(c) ? 1 : Character.isUpperCase(c) ? 2 : Character.isLowerCase(c) ? 3 : 4;
            digits += now == 1 ? 1 : 0;
            upper += now == 2 ? 1 : 0;
            lower += now == 3 ? 1 : 0;
            letters += now == 2 || now == 3 ? 1 : 0;
            // a capital before small letters begins a word, and does not end one
            boolean word = kind == 2 && now == 3;
            runs += now != kind && !word ? 1 : 0;
            kind = now;
        }
        return digits >= Signs.RANDOM_DIGITS
                && upper >= Signs.RANDOM_LETTERS
                && lower >= Signs.RANDOM_LETTERS
                && letters + digits < 3.2 * runs;
    }

    /** Bits a character, from how often each occurs. */
    private static double entropy(String value) {
        int[] counts = new int[128];
        for (int i = 0; i < value.length(); i++) {
            counts[value.charAt(i) & 127]++;
        }
        double bits = 0;
        for (int count : counts) {
            if (count > 0) {
                double share = (double) count / value.length();
                bits -= share * Math.log(share) / Math.log(2);
            }
        }
        return bits;
    }

    /** A commit message without the names in its trailers, and those given wherever they stand as words. */
    static String withoutNames(String message, String... names) {
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
