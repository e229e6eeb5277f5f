package dev.starforge.text.tokenizer;

import java.util.List;
import java.util.Random;

/** Seeded texts of the kinds that tokenizers get wrong: scripts, marks, spaces, digits, quotes, markers, code. */
public final class RandomText {
    private static final List<String> FRAGMENTS = List.of(
            " ",
            "  ",
            "\n",
            "\r\n",
            "\t",
            "    ",
            "\u00A0",
            "\u3000",
            "\u2028",
            "\u0085",
            "\u200B",
            "'s",
            "'S",
            "'\u017F",
            "'ll",
            "'LL",
            "'re",
            "'vE",
            "'d",
            "'",
            "''",
            "I'm",
            "don't",
            "0",
            "42",
            "123456",
            "\u0663\u0664",
            "\u00BD",
            "\u2167",
            "\u00B2",
            "x",
            "foo",
            "Foo_bar",
            "camelCase",
            "for (int i = 0; i < n; ++i) {",
            "}\n\n",
            "// ---",
            "<|endoftext|>",
            "<fim_prefix>",
            "<|im_start|>",
            "<s>",
            "</s>",
            "<unk>",
            "<|begin_of_text|>",
            "<0x41>",
            "e\u0301",
            "\u00E9",
            "\uAC00",
            "\u1100\u1161",
            "\u4F60\u597D",
            "\u3053\u3093",
            "\uFB01",
            "\u0130",
            "\u0391\u03A3",
            "\uD83D\uDE42",
            "\uD83D\uDC69\u200D\uD83D\uDC67",
            "\u2581",
            "\u2581\u2581",
            "\u00DF",
            "\u212A",
            "\u0000",
            "\uFFFD",
            "\uFEFF",
            "...",
            "!=",
            "->",
            "#",
            "\u2014",
            "\u00AB\u00BB",
            "\u0939\u093F\u0928\u094D",
            "\u0E44\u0E17\u0E22");

    /** Characters that have been in Unicode for so long that every table knows them, as pairs of first and last. */
    private static final int[] OLD = {
        0x20, 0x7E, 0xA0, 0x24F, 0x391, 0x3A1, 0x3A3, 0x3C9, 0x400, 0x45F, 0x5D0, 0x5EA, 0x621, 0x63A, 0x641, 0x652,
        0x660, 0x669, 0x905, 0x939, 0x93E, 0x94D, 0xE01, 0xE3A, 0x1100, 0x1112, 0x1161, 0x1175, 0x1E00, 0x1EF9, 0x2000,
        0x2027, 0x2030, 0x205E, 0x2074, 0x208E, 0x2100, 0x213A, 0x2160, 0x2182, 0x2190, 0x22FF, 0x2460, 0x24EA, 0x2500,
        0x25FF, 0x3000, 0x303F, 0x3041, 0x3094, 0x30A1, 0x30FA, 0x4E00, 0x9FA5, 0xAC00, 0xD7A3, 0xE000, 0xE0FF, 0xFB00,
        0xFB06, 0xFF01, 0xFF5E, 0x10400, 0x1044F, 0x1D400, 0x1D454, 0x1F300, 0x1F320, 0x20000, 0x2A6D6
    };

    private final Random random;
    private final boolean old;

    private RandomText(long seed, boolean old) {
        random = new Random(seed);
        this.old = old;
    }

    /** Texts with characters of the whole of Unicode. */
    public static RandomText any(long seed) {
        return new RandomText(seed, false);
    }

    /** Texts with old characters only: the Rust library's tables of marks, punctuation and normal forms are of 2017. */
    static RandomText old(long seed) {
        return new RandomText(seed, true);
    }

    public String next() {
        StringBuilder text = new StringBuilder();
        int parts = random.nextInt(24);
        for (int i = 0; i < parts; i++) {
            if (random.nextInt(3) == 0) {
                text.appendCodePoint(old ? oldPoint() : point());
            } else {
                text.append(FRAGMENTS.get(random.nextInt(FRAGMENTS.size())));
            }
        }
        return text.toString();
    }

    private int oldPoint() {
        int range = 2 * random.nextInt(OLD.length / 2);
        return random.nextInt(OLD[range], OLD[range + 1] + 1);
    }

    private int point() {
        while (true) {
            int point = random.nextInt(random.nextInt(4) == 0 ? 0x32000 : 0x3000);
            if (Character.isDefined(point) && !(point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE)) {
                return point;
            }
        }
    }
}
