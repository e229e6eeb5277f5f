package dev.starforge.text.secrets;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds secrets in a line of text, as a pure function of that line. Evidence is a provider's key format; a name of a
 * secret with a plausible literal; a position that only secrets have, such as the password in a URL; or a random quoted
 * literal. High entropy alone is not evidence if the text could be a name.
 *
 * <p>A prefilter over the bytes, with a keyword automaton and the length of runs, rules out nearly all lines. All
 * regular expressions run in time linear in the line.
 */
public final class SecretScanner {
    private static final int NAMED = 1;
    private static final int PROVIDER = 2;
    private static final int AT = 4;
    private static final int COMMAND = 8;
    private static final int LONG = 16;
    private static final int CALL = 32;

    private static final int LONG_RUN = 16;
    private static final KeywordMatcher KEYWORDS = keywords();
    private static final CleanLineCache CLEAN = new CleanLineCache();
    private static final byte[] IN_RUN = new byte[256];

    static {
        for (int c = 0; c < 128; c++) {
            IN_RUN[c] = (byte) (Character.isLetterOrDigit(c) || "+/_-".indexOf(c) >= 0 ? 1 : 0);
        }
    }

    private static final Pattern WEB_TOKEN = Pattern.compile(
            "(?<![0-9A-Za-z_])eyJ[0-9A-Za-z_-]{8,2000}+\\.eyJ[0-9A-Za-z_-]{8,4000}+\\.[0-9A-Za-z_-]{8,1000}+");
    private static final Pattern HEADER = Pattern.compile("(?i)authorization");
    private static final Pattern AUTHORIZATION =
            Pattern.compile("(?i)\\b(bearer|basic|token|apikey|key)\\s{1,4}([0-9A-Za-z+/=_.~-]{8,2000}+)");

    /** A database address in the form of Go drivers: {@code user:password@tcp(host)/name}. */
    private static final Pattern SOURCE =
            Pattern.compile("(?<!\\w)[\\w.-]{1,60}:([^\\s:@/\"']{4,200})@(?:tcp|unix)\\(");

    private SecretScanner() {}

    private static KeywordMatcher keywords() {
        Map<String, Integer> groups = new HashMap<>();
        for (String name :
                "pass pwd psw secret token key cred auth psk salt bearer jwt pw _pat sig= sonar.login".split(" ")) {
            groups.merge(name, NAMED, (a, b) -> a | b);
        }
        for (String anchor : ProviderKeys.anchors()) {
            groups.merge(anchor.toLowerCase(Locale.ROOT), PROVIDER, (a, b) -> a | b);
        }
        groups.merge("eyj", PROVIDER, (a, b) -> a | b);
        groups.put("@", AT);
        for (String command : CommandPasswords.keywords()) {
            groups.merge(command, COMMAND, (a, b) -> a | b);
        }
        for (String call : CallArguments.keywords()) {
            groups.merge(call, CALL, (a, b) -> a | b);
        }
        return new KeywordMatcher(groups);
    }

    /** Prefilter: returns the rules to try on a byte range, as a bit mask; usually 0. */
    private static int firstLook(byte[] bytes, int from, int to) {
        int state = 0;
        int groups = 0;
        int run = 0;
        int longest = 0;
        for (int i = from; i < to; i++) {
            byte b = bytes[i];
            state = KEYWORDS.next(state, b);
            groups |= KEYWORDS.groups(state);
            run = (run + 1) * IN_RUN[b & 0xFF];
            longest = Math.max(longest, run);
        }
        return longest >= LONG_RUN ? groups | LONG : groups & ~PROVIDER;
    }

    /**
     * Finds the secrets of a line of bytes, without its line ending, in order and without overlap. Offsets are relative
     * to the line's start.
     */
    public static List<SecretFinding> scan(byte[] bytes, int from, int to) {
        int look = firstLook(bytes, from, to);
        if (look == 0) {
            return List.of();
        }
        long hash = CleanLineCache.hash(bytes, from, to);
        if (CLEAN.contains(hash)) {
            return List.of();
        }
        List<SecretFinding> findings = scan(new String(bytes, from, to - from, StandardCharsets.ISO_8859_1), look);
        if (findings.isEmpty()) {
            CLEAN.add(hash);
        }
        return findings;
    }

    static List<SecretFinding> scan(String line, int look) {
        SecretFinding.FindingSet findings = new SecretFinding.FindingSet();
        if ((look & PROVIDER) != 0) {
            ProviderKeys.find(line, findings);
            each(WEB_TOKEN, line, 0, SecretRule.WEB_TOKEN, findings);
        }
        if ((look & AT) != 0) {
            urlPasswords(line, findings);
            each(SOURCE, line, 1, SecretRule.URL_PASSWORD, findings);
        }
        if ((look & (NAMED | COMMAND)) != 0) {
            authorization(line, findings);
        }
        if ((look & COMMAND) != 0) {
            CommandPasswords.find(line, findings);
        }
        if ((look & NAMED) != 0) {
            NamedValues.find(line, findings);
        }
        if ((look & CALL) != 0) {
            CallArguments.find(line, findings);
        }
        if ((look & LONG) != 0) {
            RandomLiterals.find(line, findings);
        }
        if ((look & AT) != 0) {
            EmailAddresses.find(line, findings);
        }
        return findings.inOrder();
    }

    /** Scans a line with all rules. */
    public static List<SecretFinding> scan(String line) {
        return scan(line, -1);
    }

    private static void each(
            Pattern pattern, String line, int group, SecretRule rule, SecretFinding.FindingSet findings) {
        Matcher found = pattern.matcher(line);
        while (found.find()) {
            if (!SecretValues.isPlaceholder(found.group(group))) {
                findings.add(found.start(group), found.end(group), rule);
            }
        }
    }

    private static void urlPasswords(String line, SecretFinding.FindingSet findings) {
        for (int scheme = line.indexOf("://"); scheme >= 0; scheme = line.indexOf("://", scheme + 3)) {
            int colon = -1;
            int sign = -1;
            int at = scheme + 3;
            for (; at < line.length() && " \t\r\f\"'<>/`".indexOf(line.charAt(at)) < 0; at++) {
                char c = line.charAt(at);
                colon = colon < 0 && sign < 0 && c == ':' ? at : colon;
                sign = c == '@' ? at : sign;
            }
            if (colon > 0 && sign > colon + 3) {
                String password = line.substring(colon + 1, sign);
                if (!SecretValues.isPlaceholder(password)
                        && password.chars().noneMatch(c -> "\\[]{}()|*,;".indexOf(c) >= 0)
                        && password.chars().anyMatch(c -> c < '0' || c > '9')
                        && !password.equals(line.substring(scheme + 3, colon))) {
                    findings.add(colon + 1, sign, SecretRule.URL_PASSWORD);
                }
            }
        }
    }

    private static void authorization(String line, SecretFinding.FindingSet findings) {
        Matcher found = AUTHORIZATION.matcher(line);
        boolean header = HEADER.matcher(line).find();
        while (found.find()) {
            String scheme = found.group(1);
            String value = found.group(2);
            boolean bearer = scheme.equalsIgnoreCase("bearer");
            boolean basic = scheme.equalsIgnoreCase("basic");
            if ((header || bearer) && (basic ? isBasic(value) : isHeaderKey(value))) {
                findings.add(found.start(2), found.end(2), SecretRule.AUTH_HEADER);
            }
        }
    }

    /** Returns true for a value in a header of keys; few letters without digits suffice. */
    private static boolean isHeaderKey(String value) {
        return SecretValues.isKey(value)
                || value.length() >= 10
                        && !SecretValues.isPlaceholder(value)
                        && !SecretValues.isCode(value)
                        && Gibberish.of(value).isStrange();
    }

    /** Returns true for base64 of a user and a password that is not a placeholder. */
    private static boolean isBasic(String value) {
        try {
            String text = new String(Base64.getDecoder().decode(value), StandardCharsets.UTF_8);
            int colon = text.indexOf(':');
            return colon > 0
                    && colon + 3 < text.length()
                    && !SecretValues.isPlaceholder(text.substring(colon + 1))
                    && !text.startsWith("Aladdin:");
        } catch (IllegalArgumentException otherwise) {
            return false;
        }
    }
}
