package dev.starforge.text.secrets;

import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a value is, by itself: a placeholder, code, a password that a person made up, a key that a machine made. */
final class SecretValues {
    private static final int LONGEST = 1000;

    /** What a template, a format or a shell fills in later. */
    private static final Pattern TEMPLATE = Pattern.compile("<.*|.*[$#]\\{.*|.*\\$\\(.*|\\{\\{.*|\\[\\[.*"
            + "|\\$[A-Za-z_]+[0-9]{0,2}|\\$[A-Z_][A-Z0-9_]*|\\$[a-z]+(?:_[a-z0-9]+)+|\\$[A-Za-z_]+(?:->|\\[|\\.|/).*"
            + "|.*\\{(?:[A-Za-z_][A-Za-z0-9_.:!-]*|[0-9]*)\\}.*"
            + "|%[sdvq](?![A-Za-z0-9]).*|%\\([A-Za-z0-9_]+\\)s.*|%[A-Za-z_][A-Za-z0-9_]*%|@{1,2}[A-Za-z0-9_.-]+@{1,2}");

    /** A call, an element, a member, a regular expression, a selector, an address, a place, a version, a date. */
    private static final Pattern CODE = Pattern.compile("[A-Za-z_$][A-Za-z0-9_.:$>-]*[(\\[].*[)\\]];?"
            + "|[a-z_]+(?:\\.[A-Za-z_][A-Za-z0-9_]*)+|.*(?:\\(\\?|\\[[aA0]-|\\\\[swdbSWDB]|\\.\\*).*"
            + "|[#.\\[][a-z][a-z_-]*[\\w\\[\\]=:.-]*|.*://.*|[.~]{0,2}/.*|[A-Za-z]:\\\\.*"
            + "|(?:[a-z]+:)?[v^~]?[0-9]+(?:\\.[0-9]+)+[\\w.-]*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|&[a-z]+;.*");

    private static final Pattern NAME_OF_CODE =
            Pattern.compile("[A-Za-z_$@][A-Za-z0-9_]*(?:(?:\\.|::|->|\\?\\.)(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]))*[?!]?");
    private static final Pattern HEX = Pattern.compile("[0-9a-f]{16,}|[0-9A-F]{16,}");
    private static final Pattern UUID =
            Pattern.compile("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}");
    private static final Pattern KEY_ALPHABET = Pattern.compile("[0-9A-Za-z+/_.~:=-]+");
    private static final Pattern WORDS = Pattern.compile("[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|[A-Za-z]{2,}");
    private static final Pattern SAME = Pattern.compile("(.)\\1{7,}");
    private static final Pattern SAMPLE = Pattern.compile(
            "(?i)example|changeme|change.me|placeholder|your.?(?:own|api|secret|token|pass|key|access|app|client)|\\byour[-_]"
                    + "|redacted|x{4}|\\*{3}|\\.{3}|insert|replace.?(?:me|with)|dummy|sample|0123456789|00010203|deadbeef");
    private static final Pattern KEBAB = Pattern.compile("[A-Za-z]{3,}(?:-[A-Za-z]{3,}){2,7}");
    private static final Pattern WORD_AND_NUMBER =
            Pattern.compile("[A-Za-z]{5,}[0-9]{1,6}!?|[A-Z][a-z]{3,}_[0-9]{2,6}");
    private static final Pattern PHRASE = Pattern.compile("[A-Z][a-z]+(?:[A-Z][a-z]+)+");

    /** Words that a value made of nothing else does not keep secret. */
    private static final Set<String> DUMMIES = words("""
        password passwd passphrase passcode pass pwd pw secret secrets token tokens key keys api apikey access auth
        credential credentials test tests testing tester foo bar baz qux quux foobar foobaz example examples sample demo
        dummy fake mock stub placeholder changeme changeit change me it replace insert enter your yours my mine the some
        any this that here user username users usr admin administrator root guest login default none null nil undefined
        true false string str value text data invalid wrong bad incorrect valid good old new another other unknown
        redacted hidden masked removed private public secure abc abcd abcde abcdef abcdefg abcdefgh def ghi xyz asdf
        hello world something anything nothing empty not is in for and or to of with without no yes on off id name
        bearer basic jwt oauth session cookie csrf xsrf hash digest plain cleartext encrypted\
        """);

    /** Words of forms, messages and programs: names have them, passwords seldom. */
    private static final Set<String> PROGRAM = words("""
        field input minimum maximum vertex shader fragment forbidden type label error errors message required missing current confirm confirmation reset forgot form
        button page view model param params arg args argument option options config setting settings env var variable
        file path url uri host port length min max size count index list map array object node entry item row column
        table column char byte bytes buf buffer int integer float double bool boolean number num const varchar nvarchar uint long
        function method class module self request response header body query encoder encoding encode decode manager
        provider service client server handler helper factory builder generator store storage vault ref reference
        too short long weak strong blank match matches mismatch expired used line block state status mode event
        utf sha md base bcrypt argon pbkdf scrypt aes rsa hmac oauth http https json xml html css sql ascii latin
        x509 pem der scalar exception prompt visibility visible show hide toggle strength policy rule\
        """);

    private SecretValues() {}

    static Set<String> words(String text) {
        return Set.copyOf(List.of(text.strip().split("\\s+")));
    }

    private static boolean matches(Pattern pattern, String value) {
        return value.length() <= LONGEST && pattern.matcher(value).matches();
    }

    /** Made up for a document or filled in later. */
    static boolean isSample(String value) {
        return value.length() <= LONGEST
                && (SAMPLE.matcher(value).find() || SAME.matcher(value).find());
    }

    /** No secret but a word for one, or what is filled in later. */
    static boolean isPlaceholder(String value) {
        return value.length() > LONGEST || matches(TEMPLATE, value) || isSample(value) || onlyWordsOf(DUMMIES, value);
    }

    /** Whether there are words, and all are of a set; digits and signs between them do not count. */
    private static boolean onlyWordsOf(Set<String> set, String value) {
        Matcher word = WORDS.matcher(value);
        int seen = 0;
        int letters = 0;
        for (int i = 0; i < value.length(); i++) {
            letters += Character.isLetter(value.charAt(i)) ? 1 : 0;
        }
        while (word.find()) {
            if (!isOf(set, word.group().toLowerCase(Locale.ROOT))) {
                return false;
            }
            seen += word.end() - word.start();
        }
        return seen > 0 && seen >= letters - 1;
    }

    /** A word of a set, or two of them written as one. */
    private static boolean isOf(Set<String> set, String word) {
        boolean known = set.contains(word);
        for (int i = 2; i < word.length() - 1 && !known; i++) {
            known = set.contains(word.substring(0, i)) && set.contains(word.substring(i));
        }
        return known;
    }

    private static boolean hasWordOf(Set<String> set, String value) {
        return WORDS.matcher(value)
                .results()
                .anyMatch(word -> set.contains(word.group().toLowerCase(Locale.ROOT)));
    }

    static boolean isCode(String value) {
        return matches(CODE, value);
    }

    static boolean isHex(String value) {
        return matches(HEX, value);
    }

    static boolean isUuid(String value) {
        return matches(UUID, value);
    }

    /** Base64 of text is data, not a key. */
    static boolean isEncodedText(String value) {
        try {
            byte[] bytes = Base64.getDecoder().decode(value);
            for (byte b : bytes) {
                if (b < ' ' && b != '\n' && b != '\t') {
                    return false;
                }
            }
            return true;
        } catch (IllegalArgumentException otherwise) {
            return false;
        }
    }

    /** In quotation marks, for something called a password. */
    static boolean isPassword(String value) {
        if (value.length() < 6 || value.length() > 200 || isPlaceholder(value) || isCode(value)) {
            return false;
        }
        Gibberish made = Gibberish.of(value);
        if (made.letters() == 0) {
            return false;
        }
        boolean sign = value.chars().anyMatch(c -> "!@#$%^&*+=~?".indexOf(c) >= 0);
        boolean program = hasWordOf(PROGRAM, value) && !made.isLeet();
        if (made.digits() > 0 || sign) {
            return !program || made.isRandom();
        }
        return (matches(KEBAB, value) || matches(PHRASE, value)) && !program && !hasWordOf(DUMMIES, value)
                || made.isScrambled();
    }

    /**
     * Without quotation marks, where code stands as well: what could be a name must have digits where no name has them, or
     * be a word and a number, as nobody calls a variable.
     */
    static boolean isBarePassword(String value) {
        if (!isPassword(value)) {
            return false;
        }
        Gibberish made = Gibberish.of(value);
        char first = value.charAt(0);
        if (matches(NAME_OF_CODE, value)) {
            boolean number = matches(WORD_AND_NUMBER, value);
            boolean phrase = value.endsWith("!") && matches(PHRASE, value.substring(0, value.length() - 1));
            return made.isLeet() || made.isRandom() || (number || phrase) && !hasWordOf(DUMMIES, value);
        }
        return first != '*'
                && first != '&'
                && first != '!'
                && first != '['
                && first != '{'
                && first != '@'
                && (made.digits() > 0 || !hasWordOf(DUMMIES, value));
    }

    /** For something called a secret or the key of something: letters and digits that are not a name with a number. */
    static boolean isSecret(String value) {
        if (value.length() < 6 || isPlaceholder(value) || isCode(value)) {
            return false;
        }
        Gibberish made = Gibberish.of(value);
        return made.letters() > 0 && made.digits() > 0 && (!made.isWordy() || made.isLeet())
                || isKey(value)
                || made.isScrambled() && matches(KEY_ALPHABET, value);
    }

    /** The same where code stands as well. */
    static boolean isBareSecret(String value) {
        return isKey(value)
                || value.length() >= 8 && isSecret(value) && Gibberish.of(value).isRandom();
    }

    /** For something called a token: as only a machine makes it. */
    static boolean isKey(String value) {
        if (value.length() < 10 || isPlaceholder(value) || isCode(value) || !matches(KEY_ALPHABET, value)) {
            return false;
        }
        if (matches(HEX, value) || matches(UUID, value)) {
            return Gibberish.of(value).letters() > 0;
        }
        Gibberish made = Gibberish.of(value);
        boolean alphabet = value.toLowerCase(Locale.ROOT).contains("abcdefg");
        return made.isRandom() || (made.isScrambled() || made.isNoise() && !alphabet) && value.length() <= 64;
    }
}
