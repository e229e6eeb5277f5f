package dev.starforge.data.secrets;

import dev.starforge.data.secrets.SecretNames.Kind;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Values of things that are called a password, secret, key or token. A name is followed by what languages put between it and
 * a literal: a type, an operator, a comma, a bracket, the constructor of a string. A value in quotation marks is a literal;
 * one without is code more often than not, and is taken only where configuration files and shells have it.
 */
final class NamedValues {
    private static final Pattern NAMING =
            Pattern.compile("(?i)pass|pwd|psw|secret|token|key|cred|auth|psk|salt|bearer|jwt|pw\\b|_pat\\b");
    private static final int LONGEST_NAME = 100;

    /** How much before a name tells where it stands. */
    private static final int BEFORE = 200;

    private static final String TYPE = "(?::\\s{0,4}[\\w&*?'\\[][\\w&*'<>\\[\\](),.|? :]{0,60}?\\s{0,4}(?==[^=])"
            + "|(?:\\s{1,8}[\\w.*]{1,30}|\\[\\w{0,12}\\]){1,2}\\s{0,8}(?==[^=]))";
    private static final String OPERATOR =
            "(?:[!=]==?|=>|<<<|:=|[?|]{2}=?|\\+=|<-|->|=|::?|,|\\(|\\{|\\[|\\s(?:or|and|as|is|to|be|eq))";
    private static final String STRING =
            "(?:new\\s|&|\\*)?(?:(?:String(?:::from|\\.valueOf)?|string|str|bytes|bytearray|Some"
                    + "|Secret\\w{0,10}|std::string|strdup|QString\\w{0,10}|TEXT|_T|Buffer\\.from|\\[\\]byte|ConvertTo-SecureString|Just|Optional\\.of)[\\s({]{1,2})?"
                    + "(?:[bBrRuULN@$]{1,2}(?=[\"'])|[\"'](?=\\\\[\"']))?";

    /** From the end of a name to a literal: type, operator (group 1), constructor; the literal is the last group. */
    private static final Pattern QUOTED = Pattern.compile("(?:\\\\?[\"'`])?[\\])}]{0,2}[?!]?(?:" + TYPE + ")?\\s{0,20}("
            + OPERATOR + ")?\\s{0,20}" + STRING + "(\\\\?[\"'`])([^\"'`\\s]{4,300}?)\\2");

    /** Beside the name: {@code name="password" value="…"}, {@code variable "password" { default = "…" }}. */
    private static final Pattern BESIDE = Pattern.compile(
            "[\"']?[\\s,{(]{1,6}[\"']?(?:[a-z]{1,20}:)?(?:value|content|default)[\"']?\\s{0,4}[:=]\\s{0,4}[\"']([^\"'<>\\s]{4,300})[\"']");

    private static final Pattern ELEMENT = Pattern.compile("[\"']?>([^\\s<>\"']{4,300})</");

    /** A user and a password, given together: {@code basic_auth("user", "…")}. */
    private static final Pattern PAIR = Pattern.compile(
            "\\s{0,2}[=(\\s]{1,3}\\s{0,2}[\"'][^\"'\\s]{1,80}[\"']\\s{0,4},\\s{0,4}[\"']([^\"'\\s]{4,200})[\"']");

    private static final Pattern PAIR_NAME = Pattern.compile("(?i).*(?:(?:basic|digest|password)_?auth|credentials?)");

    /** Without blanks: an environment variable, an option, a connection string, an address, a line of a file. */
    private static final Pattern GLUED = Pattern.compile("=([^\\s\"'`;&<>(){},\\\\]{4,300})(?=[\\s;&\"'`\\\\,)|]|$)");

    /** The same with a colon, as headers are written within literals. */
    private static final Pattern HEADER = Pattern.compile(":\\s{0,2}([^\\s\"'`;&<>(){},\\\\]{4,300})(?=[\"'`\\\\])");

    /** Of a command, an address or a connection string, where no code stands. */
    private static final Pattern BEFORE_LITERAL = Pattern.compile(".*(?:[;&?:]|\\s--[a-z-]{1,40}[ =])\\s?");

    /** A line of a configuration file to its end, or to a comment. */
    private static final Pattern SETTING = Pattern.compile(
            "[\"']?\\s{0,20}[?:+]?[=:]\\s{1,20}([^\\s\"'`<]{4,300}?)(?=\\s{0,40}(?:\\s(?:#|//|;).*)?$)");

    private static final Pattern BEFORE_SETTING =
            Pattern.compile("[+ -]?\\s*(?:-\\s+)?(?:export\\s+|set\\s+|env\\s+|var\\s+)?[\"']?[$]?");

    /** After a blank, where a command or a file has it so. */
    private static final Pattern WORD = Pattern.compile("\\s{1,8}([^\\s\"'`<>]{4,300})(?=[\\s\"'`]|$)");

    private static final Pattern BEFORE_WORD =
            Pattern.compile("\\s*(?:ENV|machine|default)\\s.*|.*\\slogin\\s.*|.*\\s--|(?:.*\\s)?set\\s(?:-\\w+\\s)?");

    /** What a shell takes if nothing else is given: {@code ${PASSWORD:-…}}. */
    private static final Pattern OTHERWISE = Pattern.compile(":?-([^\\s\"'`{}$]{4,300})}");

    private static final List<Pattern> LITERALS = List.of(BESIDE, ELEMENT, OTHERWISE);

    /** A literal further on in the line. */
    private static final Pattern NEAR = Pattern.compile("[\"']([0-9A-Za-z+/_.~:=-]{12,300})[\"']");

    private static final int REACH = 60;

    /** How a value stands there: as a literal, given to a function, as a literal without marks, or perhaps as code. */
    private enum Form {
        QUOTED,
        GIVEN,
        LITERAL,
        BARE
    }

    private record Candidate(int from, String value, Form form) {
        static Candidate of(Matcher matcher, int group, Form form) {
            return new Candidate(matcher.start(group), matcher.group(group), form);
        }

        int to() {
            return from + value.length();
        }
    }

    private NamedValues() {}

    static void find(String line, Finding.Set findings) {
        Matcher naming = NAMING.matcher(line);
        for (int at = 0; at < line.length() && naming.find(at); ) {
            int from = naming.start();
            while (from > at && naming.start() - from < LONGEST_NAME && inName(line.charAt(from - 1))) {
                from--;
            }
            int to = naming.end();
            while (to < line.length() && to - naming.end() < LONGEST_NAME && inName(line.charAt(to))) {
                to++;
            }
            at = to;
            String name = line.substring(from, to);
            Kind kind = SecretNames.of(name);
            Matcher pair = at(PAIR, line, to);
            if (kind != Kind.NONE && PAIR_NAME.matcher(name).matches() && pair.lookingAt()) {
                if (Values.isPassword(pair.group(1))) {
                    findings.add(pair.start(1), pair.end(1), Rule.NAMED_PASSWORD);
                }
                continue;
            }
            Optional<Candidate> found = kind == Kind.NONE ? Optional.empty() : candidate(line, from, to);
            if (found.isPresent() && isSecret(kind, name, found.get())) {
                String value = found.get().value();
                findings.add(found.get().from(), found.get().to(), rule(kind, value));
                at = found.get().to();
            } else if (kind == Kind.SECRET || kind == Kind.TOKEN) {
                at = Math.max(at, near(line, to, kind, findings));
            }
        }
    }

    /** A name that says secret and a literal that only chance makes belong together, whatever is between them. */
    private static int near(String line, int from, Kind kind, Finding.Set findings) {
        Matcher literal = NEAR.matcher(line).region(from, Math.min(line.length(), from + REACH + 300));
        if (literal.find() && literal.start() < from + REACH && Values.isKey(literal.group(1))) {
            findings.add(literal.start(1), literal.end(1), rule(kind, literal.group(1)));
            return literal.end(1);
        }
        return from;
    }

    private static boolean inName(char c) {
        return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.';
    }

    private static Optional<Candidate> candidate(String line, int from, int to) {
        String before = line.substring(Math.max(0, from - BEFORE), from);
        Matcher quoted = at(QUOTED, line, to);
        if (quoted.lookingAt()) {
            boolean linked = (quoted.group(1) != null || !quoted.group(2).equals("`"))
                    && !closes(quoted.group(2), before, line.startsWith(quoted.group(2), to));
            Form form = "(".equals(quoted.group(1)) ? Form.GIVEN : Form.QUOTED;
            return linked ? Optional.of(Candidate.of(quoted, 3, form)) : Optional.empty();
        }
        for (Pattern pattern : LITERALS) {
            Matcher literal = at(pattern, line, to);
            if (literal.lookingAt()) {
                return Optional.of(Candidate.of(literal, 1, pattern == BESIDE ? Form.QUOTED : Form.LITERAL));
            }
        }
        return unquoted(line, from, to, before);
    }

    private static Optional<Candidate> unquoted(String line, int from, int to, String before) {
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
            return Optional.of(Candidate.of(glued, 1, literal && (!code || inside) ? Form.LITERAL : Form.BARE));
        }
        Matcher header = at(HEADER, line, to);
        if (inside && header.lookingAt()) {
            return Optional.of(Candidate.of(header, 1, Form.LITERAL));
        }
        Matcher setting = at(SETTING, line, to);
        if (from <= BEFORE
                && setting.lookingAt()
                && BEFORE_SETTING.matcher(before).matches()) {
            return Optional.of(Candidate.of(setting, 1, Form.BARE));
        }
        Matcher word = at(WORD, line, to);
        boolean apart =
                word.lookingAt() && (option || BEFORE_WORD.matcher(before).matches());
        return apart ? Optional.of(Candidate.of(word, 1, Form.LITERAL)) : Optional.empty();
    }

    /** Whether a mark after a name that stands in a literal ends that literal, and does not begin another one. */
    private static boolean closes(String mark, String before, boolean nameEndsLiteral) {
        return mark.length() == 1 && !nameEndsLiteral && within(mark.charAt(0), before);
    }

    private static boolean within(char mark, String before) {
        return before.chars().filter(c -> c == mark).count() % 2 == 1;
    }

    private static Matcher at(Pattern pattern, String line, int at) {
        return pattern.matcher(line).region(at, line.length()).useTransparentBounds(true);
    }

    private static boolean isSecret(Kind kind, String name, Candidate candidate) {
        String value = candidate.value();
        Form form = candidate.form();
        if (form == Form.BARE && (value.endsWith(",") || value.endsWith(";") || value.endsWith("{"))) {
            return false;
        }
        return switch (kind) {
            case PASSWORD -> form == Form.BARE ? Values.isBarePassword(value) : Values.isPassword(value);
            case SECRET ->
                form == Form.BARE || form == Form.GIVEN ? Values.isBareSecret(value) : Values.isSecret(value);
            case TOKEN -> Values.isKey(value);
            default -> isRandomKey(name, value, form);
        };
    }

    /** A map's key is a secret only if it is made of nothing but chance; a hash is what such a key often is. */
    private static boolean isRandomKey(String name, String value, Form form) {
        int least = form == Form.QUOTED ? 16 : 20;
        if (form == Form.BARE || value.length() < least || !Values.isKey(value) || Values.isUuid(value)) {
            return false;
        }
        return Values.isHex(value)
                ? form == Form.QUOTED && value.length() >= 32 && name.length() <= 12
                : !Values.isEncodedText(value);
    }

    private static Rule rule(Kind kind, String value) {
        if (kind == Kind.PASSWORD) {
            return Rule.NAMED_PASSWORD;
        }
        return value.length() >= 16 && Values.isKey(value) ? Rule.NAMED_KEY : Rule.NAMED_SECRET;
    }
}
