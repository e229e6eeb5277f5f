package dev.starforge.text.secrets;

/**
 * Tells random characters from words and names. Words are pairs of letters that follow each other often; a random key
 * changes between small letters, capitals and digits all the time, and its pairs are anything. Entropy alone does not tell
 * them apart: a long name has as many different characters as a key.
 *
 * <p>The pairs were counted in the words of six repositories of C++, Python, Java, Go, JavaScript and their documentation,
 * each word by the square root of how often it occurs.
 */
final class Gibberish {
    /** Bits of the second letter after the first, at most 9: a row for each first letter. Random pairs have 6.1 on average. */
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

    /** Words stay below it, random letters above. */
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

    /** What a value is made of. */
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
            // a capital begins a word of small letters
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

    /** Characters that are neither letters nor digits. */
    int signs() {
        return signs;
    }

    boolean isMixed() {
        return upper >= 2 && lower >= 2 && digits >= 2;
    }

    /** Digits for letters within a word, as people write passwords. */
    boolean isLeet() {
        return leet;
    }

    /** Most letters are in pieces that read like words; of three letters only where signs tell words apart. */
    boolean isWordy() {
        return (wordLetters + (signs > 0 ? shortLetters : 0)) * 10 >= letters * 6;
    }

    private double bitsPerPair() {
        return pairs == 0 ? 9 : (double) bits / pairs;
    }

    /** Letters of both cases that spell nothing. */
    boolean isScrambled() {
        return letters >= 10 && upper >= 2 && lower >= 2 && isStrange() && !isWordy();
    }

    /** Many letters of one case, without a sign or digit, that spell nothing. */
    boolean isNoise() {
        return letters >= 20 && pairs == letters - 1 && digits + signs == 0 && bitsPerPair() >= 5.3;
    }

    boolean isStrange() {
        return bitsPerPair() >= WORD_BITS;
    }

    /** How many letters and digits there are until the kind of character changes. */
    double runLength() {
        return (double) (letters + digits) / Math.max(1, runs);
    }

    /**
     * Whether letters and digits are mixed as only chance does it. Short values need more of a mixture than long ones, whose
     * pairs of letters tell more.
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
