package dev.starforge.text.secrets;

/**
 * Distinguishes random characters from words and names. In words, letter pairs that often follow each other are common.
 * Random keys have arbitrary pairs and frequent changes between lower case, upper case and digits. Entropy alone is not
 * sufficient: a long name has as many different characters as a key.
 *
 * <p>The pair frequencies come from the words of six repositories (C++, Python, Java, Go, JavaScript) and their
 * documentation, each word weighted by the square root of its count.
 */
final class Gibberish {
    /** Bits of the second letter given the first, at most 9; one row per first letter. Random pairs average 6.1. */
    private static final String[] BITS = {
        "45447759596344858343667669",
        "36563669369268488447389759",
        "38573883594468269573569879",
        "47642779398566478547578679",
        "47436569799453756334867589",
        "37664389299466379555498969",
        "38782744499444558346489989",
        "27882799398668369454568969",
        "56445559998442369543959695",
        "29862899496877369939378999",
        "36861766398576666836656979",
        "37752689397378369945579959",
        "25762799398548437847479789",
        "47433638496676469733559979",
        "56447669686442549355465899",
        "38773896498379448354489959",
        "37656685696687767546176678",
        "38562759396655369544578969",
        "58483774396667448642467869",
        "39572794299667469345598659",
        "44554569499343749433989799",
        "37662577398557466645677697",
        "28673864397754378447896899",
        "47363596389759629852859569",
        "46464768589554428633796976",
        "37761777499889579978969866",
    };

    /** Threshold of average bits per pair: words are below it, random letters above. */
    private static final double WORD_BITS = 4.6;

    private static final int LONGEST = 512;

    private int letters;
    private int digits;
    private int upper;
    private int lower;
    private int runs;
    private int signs;
    private int pairs;
    private int bits;
    private int wordLetters;
    private int shortLetters;
    private boolean leet;

    private Gibberish() {}

    /** Analyses a value. */
    static Gibberish of(String value) {
        Gibberish all = new Gibberish();
        int length = Math.min(value.length(), LONGEST);
        for (int from = 0; from < length; ) {
            int to = from + 1;
            char first = value.charAt(from);
            int kind = kind(first);
            while (to < length && kind(value.charAt(to)) == kind) {
                to++;
            }
            // a capital followed by lower case starts a word
            if (kind == UPPER && to == from + 1 && to < length && kind(value.charAt(to)) == LOWER) {
                while (to < length && kind(value.charAt(to)) == LOWER) {
                    to++;
                }
                all.upper++;
                all.lower += to - from - 1;
                all.word(value, from, to);
            } else if (kind == UPPER || kind == LOWER) {
                all.upper += kind == UPPER ? to - from : 0;
                all.lower += kind == LOWER ? to - from : 0;
                all.word(value, from, to);
            } else if (kind == DIGIT) {
                all.digits += to - from;
                all.runs++;
                all.leet |= from > 0
                        && to < length
                        && to - from == 1
                        && Character.isLetter(value.charAt(from - 1))
                        && kind(value.charAt(to)) == LOWER
                        && "013457@$".indexOf(first) >= 0;
            } else {
                all.signs += to - from;
            }
            from = to;
        }
        return all;
    }

    private static final int OTHER = 0;
    private static final int DIGIT = 1;
    private static final int UPPER = 2;
    private static final int LOWER = 3;

    private static int kind(char c) {
        return c >= '0' && c <= '9' ? DIGIT : c >= 'A' && c <= 'Z' ? UPPER : c >= 'a' && c <= 'z' ? LOWER : OTHER;
    }

    private void word(String value, int from, int to) {
        runs++;
        letters += to - from;
        int sum = 0;
        for (int i = from + 1; i < to; i++) {
            sum += BITS[(value.charAt(i - 1) | 0x20) - 'a'].charAt((value.charAt(i) | 0x20) - 'a') - '0';
        }
        bits += sum;
        pairs += to - from - 1;
        if (sum < WORD_BITS * (to - from - 1)) {
            wordLetters += to - from >= 4 ? to - from : 0;
            shortLetters += to - from == 3 ? 3 : 0;
        }
    }

    int letters() {
        return letters;
    }

    int digits() {
        return digits;
    }

    /** Number of characters that are neither letters nor digits. */
    int signs() {
        return signs;
    }

    boolean isMixed() {
        return upper >= 2 && lower >= 2 && digits >= 2;
    }

    /** Returns true if digits replace letters within a word (leetspeak). */
    boolean isLeet() {
        return leet;
    }

    /** Returns true if most letters are in word-like runs; runs of three letters count only between signs. */
    boolean isWordy() {
        return (wordLetters + (signs > 0 ? shortLetters : 0)) * 10 >= letters * 6;
    }

    private double bitsPerPair() {
        return pairs == 0 ? 9 : (double) bits / pairs;
    }

    /** Returns true for mixed-case letters that form no words. */
    boolean isScrambled() {
        return letters >= 10 && upper >= 2 && lower >= 2 && isStrange() && !isWordy();
    }

    /** Returns true for many letters of one case without signs or digits that form no words. */
    boolean isNoise() {
        return letters >= 20 && pairs == letters - 1 && digits + signs == 0 && bitsPerPair() >= 5.3;
    }

    boolean isStrange() {
        return bitsPerPair() >= WORD_BITS;
    }

    /** Average number of letters and digits between changes of character kind. */
    double runLength() {
        return (double) (letters + digits) / Math.max(1, runs);
    }

    /**
     * Returns true if letters and digits alternate as in random strings. Short values need more changes than long ones,
     * whose letter pairs are stronger evidence.
     */
    boolean isRandom() {
        int length = letters + digits;
        if (digits == 0 && (upper < 3 || lower < 3) || letters == 0 || signs > 1 + length / 10) {
            return false;
        }
        boolean changes = runLength() < (length < 16 ? 2.4 : 2.7);
        return !isWordy() && (length < 16 || runLength() < 2.2 ? changes : isStrange() && (changes || pairs >= 8));
    }
}
