package dev.starforge.text.tokenizer;

import dev.starforge.text.TokenizerException;
import dev.starforge.text.bpe.Bpe;
import dev.starforge.text.bpe.SentencePieceBpe;
import dev.starforge.text.bpe.Vocabulary;
import dev.starforge.text.pretokenizer.Normalizer;
import dev.starforge.text.pretokenizer.PreTokenizer;
import dev.starforge.text.pretokenizer.Replacement;
import dev.starforge.text.pretokenizer.Splitter;
import java.nio.file.Path;
import java.text.Normalizer.Form;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Builds a tokenizer from the vocabulary of a GGUF file. The file only names its pre-tokenizer. The expressions used
 * here are those of the original tokenizer files; llama.cpp approximates some without Unicode classes. Text for Qwen is
 * normalized to NFC, as in its original tokenizer but not in llama.cpp.
 */
final class GgufTokenizer {
    static final int NORMAL = 1;
    static final int UNKNOWN = 2;
    static final int CONTROL = 3;
    static final int USER_DEFINED = 4;
    static final int UNUSED = 5;
    static final int BYTE = 6;

    static final String MARK = "\u2581";
    private static final String CHINESE = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
    private static final String CASED_WORDS =
            "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+%1$s"
                    + "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*%1$s"
                    + "|\\p{N}%2$s| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

    /** The letters of DeepSeek-LLM: those of scripts with case. */
    private static final String CASED_LETTERS =
            "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293"
                    + "\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C"
                    + "\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5"
                    + "\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
                    + "\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59"
                    + "\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC"
                    + "\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107"
                    + "\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
                    + "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE"
                    + "\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E"
                    + "\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
                    + "\uD801\uDC00-\uD801\uDC4F\uD801\uDCB0-\uD801\uDCD3\uD801\uDCD8-\uD801\uDCFB"
                    + "\uD803\uDC80-\uD803\uDCB2\uD803\uDCC0-\uD803\uDCF2\uD806\uDCA0-\uD806\uDCDF"
                    + "\uD83A\uDD00-\uD83A\uDD43";

    private GgufTokenizer() {}

    static Tokenizer tokenizer(GgufVocabulary data) {
        Path file = data.file();
        checkLengths(data);
        Vocabulary vocabulary = vocabulary(data);
        boolean scored = switch (data.model()) {
            case "llama" -> true;
            case "gpt2" -> false;
            default ->
                throw new TokenizerException(file, "tokenizer.ggml.model: expected gpt2 or llama, got " + data.model());
        };
        List<AddedToken> added = added(data, vocabulary);
        TemplateProcessing template = new TemplateProcessing(
                special(data, "bos_token_id", data.bos(), data.addBos()),
                special(data, "eos_token_id", data.eos(), data.addEos()));
        return scored ? scored(data, vocabulary, added, template) : byteLevel(data, vocabulary, added, template);
    }

    private static void checkLengths(GgufVocabulary data) {
        int count = data.tokens().length;
        if (data.scores().length != 0 && data.scores().length != count) {
            throw wrong(data, "scores", data.scores().length + " scores for " + count + " tokens");
        }
        if (data.types().length != 0 && data.types().length != count) {
            throw wrong(data, "token_type", data.types().length + " types for " + count + " tokens");
        }
        for (int id = 0; id < data.scores().length; id++) {
            if (Float.isNaN(data.scores()[id])) {
                throw wrong(data, "scores[" + id + "]", "expected a number, got NaN");
            }
        }
        for (int id = 0; id < data.types().length; id++) {
            if (data.types()[id] < 0 || data.types()[id] > BYTE) {
                throw wrong(data, "token_type[" + id + "]", "expected 0.." + BYTE + ", got " + data.types()[id]);
            }
            if (data.types()[id] == BYTE && Decoder.ByteFallback.byteOf(data.tokens()[id]) < 0) {
                throw wrong(data, "tokens[" + id + "]", "expected a byte as <0x00>, got " + data.tokens()[id]);
            }
        }
    }

    private static Vocabulary vocabulary(GgufVocabulary data) {
        List<Vocabulary.Entry> entries = new ArrayList<>();
        for (int id = 0; id < data.tokens().length; id++) {
            String text = data.tokens()[id];
            if (!Tokenizer.wellFormed(text).equals(text)) {
                throw wrong(data, "tokens[" + id + "]", "expected whole characters, got half a surrogate pair");
            }
            entries.add(new Vocabulary.Entry(
                    text.isEmpty() ? "[EMPTY_" + id + "]" : text, id, "tokenizer.ggml.tokens[" + id + "]"));
        }
        return new Vocabulary(data.file(), entries);
    }

    private static List<AddedToken> added(GgufVocabulary data, Vocabulary vocabulary) {
        List<AddedToken> added = new ArrayList<>();
        for (int id = 0; id < data.types().length; id++) {
            int type = data.types()[id];
            if (type == UNKNOWN || type == CONTROL || type == USER_DEFINED) {
                added.add(new AddedToken(id, vocabulary.text(id), false, false, false, false, type != USER_DEFINED));
            }
        }
        return added;
    }

    private static int[] special(GgufVocabulary data, String key, int id, boolean wanted) {
        if (id < (wanted ? 0 : -1) || id >= data.tokens().length) {
            throw wrong(data, key, "id " + id + " is outside 0.." + (data.tokens().length - 1));
        }
        return wanted ? new int[] {id} : new int[0];
    }

    private static Tokenizer scored(
            GgufVocabulary data, Vocabulary vocabulary, List<AddedToken> added, TemplateProcessing template) {
        special(data, "unknown_token_id", data.unknown(), false);
        List<Normalizer> steps = new ArrayList<>();
        List<Decoder> stages = new ArrayList<>(List.of(
                new Decoder.Replace(new Replacement(new Splitter.Literal(MARK.toCharArray()), " ")),
                new Decoder.ByteFallback(),
                new Decoder.Fuse()));
        if (data.addSpacePrefix()) {
            steps.add(new Normalizer.Prepend(MARK));
            stages.add(new Decoder.Strip(' ', 1, 0));
        }
        steps.add(new Normalizer.Replace(new Replacement(new Splitter.Literal(new char[] {' '}), MARK)));
        float[] scores = data.scores().length == 0 ? new float[data.tokens().length] : data.scores();
        return new Tokenizer(
                data.file(),
                new SentencePieceBpe(data.file(), vocabulary, scores, data.unknown()),
                added,
                new Normalizer.Sequence(steps),
                new PreTokenizer.Sequence(List.of()),
                template,
                new Decoder.Sequence(stages));
    }

    private static Tokenizer byteLevel(
            GgufVocabulary data, Vocabulary vocabulary, List<AddedToken> added, TemplateProcessing template) {
        List<Bpe.Merge> merges = new ArrayList<>();
        for (int i = 0; i < data.merges().length; i++) {
            String place = "tokenizer.ggml.merges[" + i + "]";
            String merge = data.merges()[i];
            int space = merge.indexOf(' ', 1);
            if (space < 0) {
                throw new TokenizerException(data.file(), place + ": expected two tokens, got " + merge);
            }
            merges.add(new Bpe.Merge(merge.substring(0, space), merge.substring(space + 1), place));
        }
        boolean composed = usesNfc(data.pre());
        return new Tokenizer(
                data.file(),
                new Bpe(
                        data.file(),
                        vocabulary,
                        merges,
                        new Bpe.Settings(true, false, "", false, GgufVocabulary.LIKE_LLAMA3.contains(data.pre()))),
                added,
                composed ? Normalizer.Unicode.of(Form.NFC) : new Normalizer.Sequence(List.of()),
                new PreTokenizer.Sequence(stages(data)),
                template,
                new Decoder.Bytes());
    }

    /** Returns true if the models of a pre-tokenizer use NFC text. */
    static boolean usesNfc(String pre) {
        return pre.equals("qwen2") || pre.equals("deepseek-r1-qwen");
    }

    static List<PreTokenizer> stages(GgufVocabulary data) {
        return expressions(data.pre())
                .orElseThrow(() -> wrong(
                        data,
                        "pre",
                        data.pre() + " is not known; known are default, llama-bpe, qwen2, starcoder, refact,"
                                + " command-r, gpt-2, phi-2, falcon, deepseek-llm, deepseek-coder, deepseek-v3,"
                                + " tekken, gpt-4o and others that cut as one of these"))
                .stream()
                .<PreTokenizer>map(expression -> PreTokenizer.Split.isolated(Splitter.of(expression)))
                .toList();
    }

    /** The expressions of a named pre-tokenizer, applied in order. */
    static Optional<List<String>> expressions(String pre) {
        return switch (pre) {
            case "", "default" ->
                Optional.of(List.of("[\\p{P}\\$\\+<=>\\^~\\|]+", Splitter.GPT2, "\\p{N}+", "[0-9][0-9][0-9]"));
            case "llama3",
                    "llama-v3",
                    "llama-bpe",
                    "falcon3",
                    "falcon-h1",
                    "pixtral",
                    "midm-2.0",
                    "lfm2",
                    "dbrx",
                    "smaug-bpe",
                    "glm4",
                    "chatglm-bpe" -> Optional.of(List.of(Splitter.LLAMA3.formatted("{1,3}")));
            case "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "grok-2" ->
                Optional.of(List.of(Splitter.LLAMA3.formatted("")));
            case "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2" ->
                Optional.of(List.of("\\p{N}", Splitter.GPT2));
            case "gpt-2",
                    "phi-2",
                    "mpt",
                    "olmo",
                    "jais",
                    "trillion",
                    "granite-docling",
                    "exaone4",
                    "mellum",
                    "gigachat" -> Optional.of(List.of(Splitter.GPT2));
            case "falcon" -> Optional.of(List.of("[\\p{P}\\$\\+<=>\\^~\\|`]+", Splitter.GPT2, "[0-9][0-9][0-9]"));
            case "deepseek-llm" ->
                Optional.of(List.of(
                        "[\r\n]",
                        "\\s?[" + CASED_LETTERS + "]+",
                        "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+",
                        "\\s+$",
                        CHINESE,
                        "\\p{N}+"));
            case "deepseek-coder" -> Optional.of(List.of("[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CHINESE, "\\p{N}"));
            case "deepseek-v3", "hunyuan-dense", "joyai-llm" ->
                Optional.of(List.of(
                        "\\p{N}{1,3}",
                        "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
                        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
                                + "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
                                + "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"));
            case "tekken" -> Optional.of(List.of(CASED_WORDS.formatted("", "")));
            case "gpt-4o", "llama4" ->
                Optional.of(List.of(CASED_WORDS.formatted("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "{1,3}")));
            default -> Optional.empty();
        };
    }

    private static TokenizerException wrong(GgufVocabulary data, String key, String message) {
        return new TokenizerException(data.file(), "tokenizer.ggml." + key + ": " + message);
    }
}
