package dev.starforge.text.secrets;

import dev.starforge.text.secrets.SecretNames.NameKind;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Values whose name is a password, secret, key or token. Between a name and its literal there may be a type, an
 * operator, a comma, a bracket or a string constructor. A quoted value is a literal. An unquoted value is usually code,
 * and counts only where configuration files and shells permit it.
 */
final class NamedValues {
    private static final Pattern NAMING = Pattern.compile(
            "(?i)pass|pwd|psw|secret|token|key|cred|auth|psk|salt|bearer|jwt|pw\\b|_pat\\b|\\bsig(?==)|sonar\\.login");
    private static final int LONGEST_NAME = 100;

    /** Number of characters before a name that are examined for its context. */
    private static final int BEFORE = 200;

    /** The accessors of a property: {@code { get; set; }}. */
    private static final String ACCESSORS =
            "(?:\\s{0,4}\\{\\s{0,4}(?:(?:[a-z]{1,10}\\s)?(?:get|set|init)\\s?;\\s{0,4}){1,3}\\})?";

    private static final String TYPE = "(?::\\s{0,4}[\\w&*?'\\[][\\w&*'<>\\[\\](),.|?! :]{0,60}?\\s{0,4}(?==[^=]|by\\s)"
            + "|(?:\\s{1,8}[\\w.*]{1,30}|\\[\\w{0,12}\\]){1,2}\\s{0,8}(?==[^=]))";
    /** A property with a body, or a method without parameters: {@code () { return}, {@code : String get() =}. */
    private static final String BODY = "(?:\\(\\))?(?:\\s{0,4}(?::|->)\\s{0,4}[\\w<>\\[\\]?!.]{1,40})?\\s{0,4}"
            + "(?:\\{\\s{0,4}(?:get\\s{0,4}(?:=>|\\{)\\s{0,4})?(?:return\\s)?|get\\(\\)\\s{0,4}=|default\\s|;|(?<=\\))\\s{0,4}=>?)";

    private static final String OPERATOR =
            "(?:by\\s{1,4}\\w{1,20}(?:\\(\\w{0,20}\\))?\\s{0,4}[{(]|[!=]==?|=>|<<<|:=|[?|]{2}=?|\\+=|<-|->|=|::?|,|\\||\\(|\\{|\\[|\\s(?:or|and|as|is|was|to|be|eq)"
                    + "|\\.(?:unwrap_or|[oO]r_?[eE]lse|get_?[oO]r_?[eE]lse|or_?default)\\w{0,8}\\((?:\\|_?\\||\\(\\)\\s?->)?|"
                    + BODY + ")";

    /** Calls whose argument becomes the value. */
    private static final String WRAPPER =
            "(?:(?:\\w{1,20}[.:]{1,2}){0,2}(?:[fF]ield|Column|ref|signal|useState|mutableStateOf|MutableStateFlow"
                    + "|observable|lazyOf|lazy|extra|Lazy\\w{0,6}::new|OnceLock::from|(?:Arc|Rc|Box|Mutex|Zeroizing)::new|GetBytes|wrap"
                    + "|\\w{1,20}(?=\\(\\s?default))\\s?[({]\\s?(?:default\\w{0,8}\\s?=\\s?)?(?:\\|\\|\\s?|\\(\\)\\s?[-=]>\\s?)?)?";

    private static final String STRING =
            WRAPPER + "(?:new\\s|&|\\*|<\\w{1,20}>)?(?:(?:String(?:::from|\\.valueOf)?|string|str|bytes|bytearray|Some"
                    + "|Secret\\w{0,10}|std::string|strdup|QString\\w{0,10}|TEXT|_T|Buffer\\.from|\\[\\]byte|ConvertTo-SecureString|Just|Optional\\.of)[\\s({]{1,2})?"
                    + "(?:[bBrRuULN@$]{1,2}(?=[\"'])|[\"'](?=\\\\[\"']))?";

    /**
     * From the end of a name to a quoted literal: type, operator (group 1), constructor; the literal is the last group.
     */
    private static final Pattern QUOTED = Pattern.compile("(?:\\\\?[\"'`])?[\\])}]{0,2}[?!]?" + ACCESSORS + "(?:" + TYPE
            + ")?\\s{0,20}(" + OPERATOR + ")?\\s{0,20}" + STRING + "(\\\\?[\"'`])([^\"'`\\s]{4,300}?)\\2");

    /**
     * A name and value in separate attributes: {@code name="password" value="…"}, {@code variable "password" { default
     * = "…" }}.
     */
    private static final Pattern BESIDE = Pattern.compile(
            "[\"']?[\\s,{(]{1,6}[\"']?(?:[a-z]{1,20}:)?(?:(?i:env)?[vV]alue|content|(?i:(?:env_?)?default(?:_?value)?))[\"']?\\s{0,4}[:=]\\s{0,4}[\"']([^\"'<>\\s]{4,300})[\"']");

    /** The unquoted form in YAML braces. */
    private static final Pattern BESIDE_BARE =
            Pattern.compile(",\\s{1,4}(?:value|content|default):\\s{1,4}([^\"'<>\\s{},]{4,300})\\s{0,2}[},]");

    private static final Pattern ELEMENT = Pattern.compile(
            "(?:[\"']?|(?<=<[\\w.:-]{1,60})\\s[^<>]{1,100})>(?:<!\\[CDATA\\[)?([^\\s<>\"']{4,300}?)(?:\\]\\]>)?</"
                    + "|(?:</key>|[\"'](?:\\s[^<>]{1,100})?>)\\s{0,4}<(?:string|value)>([^\\s<>\"']{4,300})</");

    /** Other quotation syntax of Perl and Ruby. */
    private static final Pattern OTHER_MARKS =
            Pattern.compile("\\s{0,8}=>?\\s{0,8}%?[qQ]{1,2}[{(\\[|]([^\\s{}()\\[\\]|]{4,300})[})\\]|]");

    /** A user and a password passed together: {@code basic_auth("user", "…")}. */
    private static final Pattern PAIR = Pattern.compile(
            "\\s{0,2}[=(\\s]{1,3}\\s{0,2}[\"'][^\"'\\s]{1,80}[\"']\\s{0,4},\\s{0,4}[\"']([^\"'\\s]{4,200})[\"']");

    private static final Pattern PAIR_NAME = Pattern.compile(
            "(?i)(?:.*\\.)?auth|.*(?:(?:basic|digest|password|proxy)_?auth(?:entication)?|credentials?)");

    /** A value without spaces: an environment variable, an option, a connection string, a URL, a line of a file. */
    private static final Pattern GLUED = Pattern.compile("=([^\\s\"'`;&<>(){},\\\\]{4,300})(?=[\\s;&\"'`\\\\,)|]|$)");

    /** A value after a colon, as in headers within literals. */
    private static final Pattern HEADER = Pattern.compile(":\\s{0,2}([^\\s\"'`;&<>(){},\\\\]{4,300})(?=[\"'`\\\\])");

    /** Text before an unquoted value in a command, a URL or a connection string. */
    private static final Pattern BEFORE_LITERAL = Pattern.compile(".*(?:[;&?:]|\\s--[a-z-]{1,40}[ =])\\s?");

    /** A line of a configuration file, up to its end or a comment. */
    private static final Pattern SETTING = Pattern.compile(
            "[\"']?\\*{0,2}\\s{0,20}[?:+]?[=:]\\*{0,2}\\s{1,20}([^\\s\"'`<]{4,300}?)(?=\\s{0,40}(?:\\s(?:#|//|;|\\*/).*)?$)");

    private static final Pattern BEFORE_SETTING =
            Pattern.compile("(?:.*(?:^|\\s)(?:#|//|/?\\*|--)\\s*(?:[A-Za-z]{2,12}\\s){0,3}|[+"
                    + " -]?\\s*(?:[-*;]\\s+)?\\*{0,2})(?:export\\s+|set\\s+|env\\s+|var\\s+)?[\"']?[$]?");

    /** YAML in braces. */
    private static final Pattern IN_BRACES =
            Pattern.compile(":\\s{1,4}([^\"'`<>\\s{}(),;]{4,300})\\s{0,4}(?:,\\s.{0,200})?}\\s*$");

    /** A value after a space, in commands and some files. */
    private static final Pattern WORD = Pattern.compile("\\s{1,8}(?!\\w{1,30}=)([^\\s\"'`<>]{4,300})(?=[\\s\"'`]|$)");

    private static final Pattern BEFORE_WORD =
            Pattern.compile("\\s*(?:ENV|machine|default)\\s.*|.*\\slogin\\s.*|.*\\s--|(?:.*\\s)?set\\s(?:-\\w+\\s)?");

    /** A directive on its own line, as in {@code .netrc}, Redis and Kickstart. */
    private static final Pattern DIRECTIVE =
            Pattern.compile("\\s{1,8}(?:--\\w{4,12}\\s{1,4}|[0-9]\\s)?([^\\s\"'`<>]{6,300})\\s*$");

    private static final Pattern BEFORE_DIRECTIVE =
            Pattern.compile("[+-]?\\s*(?:enable\\s|username\\s\\S{1,40}\\s(?:privilege\\s\\d{1,2}\\s)?)?");

    /** The default value in a shell expansion: {@code ${PASSWORD:-…}}, {@code ${db.password:…}}. */
    private static final Pattern OTHERWISE = Pattern.compile("(?::[-=]?|-|=)([^\\s\"'`{}-][^\\s\"'`{}]{3,300})}");

    private static final List<Pattern> LITERALS = List.of(BESIDE, BESIDE_BARE, ELEMENT, OTHER_MARKS, OTHERWISE);

    /** A literal later in the line. */
    private static final Pattern NEAR = Pattern.compile("[\"']([0-9A-Za-z+/_.~:=-]{12,300})[\"']");

    /** A comment after a literal that only names it. */
    private static final Pattern COMMENTED = Pattern.compile(
            "[\"']([^\"'\\s]{6,200})[\"'][^\"'#/]{0,40}(?:#|//)\\s{0,4}(?:\\w{1,12}\\s){0,2}[\\w.-]{1,60}$");

    private static final int REACH = 60;

    private static final Pattern WORD_BEFORE =
            Pattern.compile("(?i)(?<![\\w.-])(api|access|secret|private|auth|signing|license|encryption) $");

    /** The form of a value: a literal, a function argument, an unquoted literal, or possibly code. */
    private enum ValueForm {
        QUOTED,
        GIVEN,
        LITERAL,
        BARE
    }

    private record ValueCandidate(int from, String value, ValueForm form) {
        static ValueCandidate of(Matcher matcher, int group, ValueForm form) {
            return new ValueCandidate(matcher.start(group), matcher.group(group), form);
        }

        int to() {
            return from + value.length();
        }
    }

    private NamedValues() {}

    static void find(String line, SecretFinding.FindingSet findings) {
        Matcher naming = NAMING.matcher(line);
        for (int at = 0; at < line.length() && naming.find(at); ) {
            int from = naming.start();
            while (from > at && naming.start() - from < LONGEST_NAME && inName(line.charAt(from - 1))) {
                from--;
            }
            from = withWordBefore(line, from, at);
            int to = naming.end();
            while (to < line.length() && to - naming.end() < LONGEST_NAME && inName(line.charAt(to))) {
                to++;
            }
            at = to;
            String name = line.substring(from, to);
            NameKind kind = SecretNames.of(name);
            if (kind == NameKind.KEY && from > 0 && "?&".indexOf(line.charAt(from - 1)) >= 0) {
                kind = NameKind.TOKEN; // of an address
            }
            Matcher pair = at(PAIR, line, to);
            if (kind != NameKind.NONE && PAIR_NAME.matcher(name).matches() && pair.lookingAt()) {
                if (SecretValues.isPassword(pair.group(1))) {
                    findings.add(pair.start(1), pair.end(1), SecretRule.NAMED_PASSWORD);
                }
                continue;
            }
            Optional<ValueCandidate> found = kind == NameKind.NONE ? Optional.empty() : candidate(line, from, to);
            if (found.isPresent() && isSecret(kind, name, found.get())) {
                String value = found.get().value();
                findings.add(found.get().from(), found.get().to(), rule(kind, value));
                at = found.get().to();
            } else if (kind == NameKind.PASSWORD && to == line.length()) {
                commented(line, findings);
            } else if (kind == NameKind.SECRET || kind == NameKind.TOKEN) {
                at = Math.max(at, near(line, to, kind, findings));
            }
        }
    }

    private static void commented(String line, SecretFinding.FindingSet findings) {
        Matcher literal = COMMENTED.matcher(line);
        if (literal.find() && SecretValues.isBarePassword(literal.group(1))) {
            findings.add(literal.start(1), literal.end(1), SecretRule.NAMED_PASSWORD);
        }
    }

    /** Extends a name in prose that contains a space: {@code API key}. */
    private static int withWordBefore(String line, int from, int least) {
        Matcher word = WORD_BEFORE.matcher(line).region(Math.max(least, from - 15), from);
        return word.find() ? word.start(1) : from;
    }

    /** Matches a name of a secret with a random literal in the same line, regardless of the text between them. */
    private static int near(String line, int from, NameKind kind, SecretFinding.FindingSet findings) {
        Matcher literal = NEAR.matcher(line).region(from, Math.min(line.length(), from + REACH + 300));
        if (literal.find() && literal.start() < from + REACH && SecretValues.isKey(literal.group(1))) {
            findings.add(literal.start(1), literal.end(1), rule(kind, literal.group(1)));
            return literal.end(1);
        }
        return from;
    }

    private static boolean inName(char c) {
        return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.';
    }

    private static Optional<ValueCandidate> candidate(String line, int from, int to) {
        String before = line.substring(Math.max(0, from - BEFORE), from);
        Matcher element = at(ELEMENT, line, to);
        if (element.lookingAt() && (before.endsWith("<") || element.group(1) == null)) {
            return Optional.of(ValueCandidate.of(element, element.group(1) == null ? 2 : 1, ValueForm.LITERAL));
        }
        Matcher quoted = at(QUOTED, line, to);
        if (quoted.lookingAt()) {
            boolean linked = (quoted.group(1) != null || !quoted.group(2).equals("`"))
                    && !closes(quoted.group(2), before, line.startsWith(quoted.group(2), to));
            ValueForm form = "(".equals(quoted.group(1)) ? ValueForm.GIVEN : ValueForm.QUOTED;
            return linked ? Optional.of(ValueCandidate.of(quoted, 3, form)) : Optional.empty();
        }
        for (Pattern pattern : LITERALS) {
            Matcher literal = at(pattern, line, to);
            if (literal.lookingAt() && (pattern != OTHERWISE || before.endsWith("${"))) {
                int group = literal.group(1) == null ? 2 : 1;
                return Optional.of(
                        ValueCandidate.of(literal, group, pattern == BESIDE ? ValueForm.QUOTED : ValueForm.LITERAL));
            }
        }
        return unquoted(line, from, to, before);
    }

    private static Optional<ValueCandidate> unquoted(String line, int from, int to, String before) {
        String name = line.substring(from, to);
        boolean option = name.startsWith("-");
        boolean inside = within('"', before) || within('\'', before);
        Matcher glued = at(GLUED, line, to);
        if (glued.lookingAt()) {
            boolean literal = option
                    || inside
                    || name.equals(name.toUpperCase(Locale.ROOT))
                    || name.indexOf('.') > 0
                    || BEFORE_LITERAL.matcher(before).matches();
            boolean code = glued.end() < line.length() && ",)".indexOf(line.charAt(glued.end())) >= 0;
            return Optional.of(
                    ValueCandidate.of(glued, 1, literal && (!code || inside) ? ValueForm.LITERAL : ValueForm.BARE));
        }
        Matcher header = at(HEADER, line, to);
        if (inside && header.lookingAt()) {
            return Optional.of(ValueCandidate.of(header, 1, ValueForm.LITERAL));
        }
        Matcher setting = at(SETTING, line, to);
        if (from <= BEFORE
                && setting.lookingAt()
                && BEFORE_SETTING.matcher(before).matches()) {
            return Optional.of(ValueCandidate.of(setting, 1, ValueForm.BARE));
        }
        Matcher flow = at(IN_BRACES, line, to);
        if (flow.lookingAt() && before.indexOf('{') >= 0) {
            return Optional.of(ValueCandidate.of(flow, 1, ValueForm.BARE));
        }
        Matcher word = at(WORD, line, to);
        boolean apart =
                word.lookingAt() && (option || BEFORE_WORD.matcher(before).matches());
        if (apart) {
            return Optional.of(ValueCandidate.of(word, 1, ValueForm.LITERAL));
        }
        Matcher directive = at(DIRECTIVE, line, to);
        boolean alone =
                directive.lookingAt() && BEFORE_DIRECTIVE.matcher(before).matches();
        return alone ? Optional.of(ValueCandidate.of(directive, 1, ValueForm.BARE)) : Optional.empty();
    }

    /**
     * Returns true if a quotation mark after a name inside a literal closes that literal rather than opening another.
     */
    private static boolean closes(String mark, String before, boolean nameEndsLiteral) {
        return mark.length() == 1 && !nameEndsLiteral && within(mark.charAt(0), before);
    }

    private static boolean within(char mark, String before) {
        return before.chars().filter(c -> c == mark).count() % 2 == 1;
    }

    private static Matcher at(Pattern pattern, String line, int at) {
        return pattern.matcher(line).region(at, line.length()).useTransparentBounds(true);
    }

    private static boolean isSecret(NameKind kind, String name, ValueCandidate candidate) {
        String value = candidate.value();
        ValueForm form = candidate.form();
        if (form == ValueForm.BARE && (value.endsWith(",") || value.endsWith(";") || value.endsWith("{"))) {
            return false;
        }
        return switch (kind) {
            case PASSWORD ->
                form == ValueForm.BARE ? SecretValues.isBarePassword(value) : SecretValues.isPassword(value);
            case SECRET ->
                form == ValueForm.BARE || form == ValueForm.GIVEN
                        ? SecretValues.isBareSecret(value)
                        : SecretValues.isSecret(value);
            case TOKEN -> SecretValues.isKey(value);
            default -> isRandomKey(name, value, form);
        };
    }

    /** Returns true if a map key is random. Hashes do not count, since map keys often are hashes. */
    private static boolean isRandomKey(String name, String value, ValueForm form) {
        int least = form == ValueForm.QUOTED ? 16 : 20;
        if (form == ValueForm.BARE
                || value.length() < least
                || !SecretValues.isKey(value)
                || SecretValues.isUuid(value)) {
            return false;
        }
        return SecretValues.isHex(value)
                ? form == ValueForm.QUOTED && value.length() >= 32 && name.length() <= 12
                : !SecretValues.isEncodedText(value);
    }

    private static SecretRule rule(NameKind kind, String value) {
        if (kind == NameKind.PASSWORD) {
            return SecretRule.NAMED_PASSWORD;
        }
        return value.length() >= 16 && SecretValues.isKey(value) ? SecretRule.NAMED_KEY : SecretRule.NAMED_SECRET;
    }
}
