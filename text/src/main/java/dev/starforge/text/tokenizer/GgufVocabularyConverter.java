package dev.starforge.text.tokenizer;

import dev.starforge.text.pretokenizer.BuiltinSplitter;
import dev.starforge.text.pretokenizer.MatchSpans;
import dev.starforge.text.pretokenizer.PreTokenizer;
import dev.starforge.text.pretokenizer.Splitter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Converts a {@code tokenizer.json} to the vocabulary of a GGUF file, and back. GGUF only names the pre-tokenizer, so
 * its expressions must be those of a known name. A SentencePiece-like list of merges becomes scores, the first merge
 * the highest, which matches SentencePiece's files and llama.cpp. Features that the other format cannot express are
 * rejected, except for the white space around added tokens, which llama.cpp handles by model name.
 */
public final class GgufVocabularyConverter {
    /** llama.cpp's names, one per distinct pre-tokenizer. */
    private static final List<String> NAMES = List.of(
            "llama-bpe",
            "qwen2",
            "stablelm2",
            "dbrx",
            "starcoder",
            "gpt-2",
            "falcon",
            "deepseek-llm",
            "deepseek-coder",
            "deepseek-v3",
            "tekken",
            "gpt-4o",
            "default");

    private static final float NEVER = -1e9f;

    private GgufVocabularyConverter() {}

    /**
     * Converts a {@code tokenizer.json}.
     *
     * @param rows the model's vocabulary size; rows without a token are unused
     * @param bos id in the model's settings, -1 for none; likewise {@code eos}
     */
    public static GgufVocabulary read(Path file, int rows, int bos, int eos) {
        LocatedJson root = LocatedJson.read(file);
        Tokenizer tokenizer = TokenizerJson.tokenizer(root);
        if (tokenizer.size() > rows) {
            throw root.error("has ids up to " + (tokenizer.size() - 1) + ", the model has " + rows + " tokens");
        }
        LocatedJson model = root.object("model");
        List<PreTokenizer> stages =
                root.has("pre_tokenizer") ? TokenizerJson.preTokenizers(root.object("pre_tokenizer")) : List.of();
        boolean byteLevel = !stages.isEmpty() && stages.getLast() instanceof PreTokenizer.Bytes;
        TemplateProcessing template = root.has("post_processor")
                ? TokenizerJson.template(root.object("post_processor"))
                : TemplateProcessing.NOTHING;
        int first = single(root, template.before(), bos);
        int last = single(root, template.after(), eos);
        String pre = byteLevel ? name(root, stages.subList(0, stages.size() - 1)) : "default";
        boolean spaced = !byteLevel && isSpaced(root, stages);
        return new GgufVocabulary(
                file,
                byteLevel ? "gpt2" : "llama",
                pre,
                tokens(tokenizer, rows),
                byteLevel ? new float[0] : scores(tokenizer, model, rows),
                types(tokenizer, model, rows, byteLevel),
                byteLevel ? merges(model) : new String[0],
                first,
                last,
                tokenizer.id(model.text("unk_token", "")).orElse(-1),
                template.before().length > 0,
                template.after().length > 0,
                spaced);
    }

    private static int single(LocatedJson root, int[] ids, int usual) {
        if (ids.length > 1) {
            throw root.at("post_processor").error("GGUF has room for one token before a text and one after it");
        }
        return ids.length == 1 ? ids[0] : usual;
    }

    private static String[] tokens(Tokenizer tokenizer, int rows) {
        String[] tokens = new String[rows];
        for (int id = 0; id < rows; id++) {
            tokens[id] = tokenizer.has(id) ? tokenizer.token(id) : "[PAD" + id + "]";
        }
        return tokens;
    }

    private static int[] types(Tokenizer tokenizer, LocatedJson model, int rows, boolean byteLevel) {
        int[] types = new int[rows];
        for (int id = 0; id < rows; id++) {
            boolean isByte = !byteLevel
                    && tokenizer.has(id)
                    && Decoder.ByteFallback.byteOf(tokenizer.token(id)) >= 0
                    && model.flag("byte_fallback", false);
            types[id] = !tokenizer.has(id) ? GgufTokenizer.UNUSED : isByte ? GgufTokenizer.BYTE : GgufTokenizer.NORMAL;
        }
        tokenizer
                .addedTokens()
                .forEach(added ->
                        types[added.id()] = added.special() ? GgufTokenizer.CONTROL : GgufTokenizer.USER_DEFINED);
        tokenizer.id(model.text("unk_token", "")).ifPresent(id -> types[id] = GgufTokenizer.UNKNOWN);
        return types;
    }

    private static String[] merges(LocatedJson model) {
        List<String> merges = new ArrayList<>();
        for (LocatedJson merge : model.list("merges")) {
            merges.add(
                    merge.node().isString()
                            ? merge.text()
                            : pair(merge).getFirst() + " " + pair(merge).getLast());
        }
        return merges.toArray(String[]::new);
    }

    private static List<String> pair(LocatedJson merge) {
        return merge.node().isString()
                ? List.of(merge.text().split(" ", -1))
                : merge.list().stream().map(LocatedJson::text).toList();
    }

    private static float[] scores(Tokenizer tokenizer, LocatedJson model, int rows) {
        Map<String, Integer> ranks = new HashMap<>();
        for (LocatedJson merge : model.list("merges")) {
            ranks.putIfAbsent(String.join("", pair(merge)), ranks.size() + 1);
        }
        float[] scores = new float[rows];
        for (int id = 0; id < rows; id++) {
            String token = tokenizer.has(id) ? tokenizer.token(id) : "";
            boolean single = token.codePointCount(0, token.length()) == 1;
            scores[id] = ranks.containsKey(token) ? -ranks.get(token) : single ? 0 : NEVER;
        }
        return scores;
    }

    /** Returns true if a space is prepended to the input; throws if spaces are not marked as in SentencePiece. */
    private static boolean isSpaced(LocatedJson root, List<PreTokenizer> stages) {
        if (!root.object("model").flag("byte_fallback", false)) {
            throw root.at("model")
                    .error("llama.cpp has byte-level models and those with byte_fallback, this is neither");
        }
        if (stages.size() == 1
                && stages.getFirst() instanceof PreTokenizer.Metaspace(char mark, var prepend, boolean split)
                && String.valueOf(mark).equals(GgufTokenizer.MARK)
                && !split
                && !root.has("normalizer")) {
            return prepend != PreTokenizer.Metaspace.Prepend.NEVER;
        }
        List<LocatedJson> steps = !root.has("normalizer")
                ? List.of()
                : root.object("normalizer").has("normalizers")
                        ? root.object("normalizer").list("normalizers")
                        : List.of(root.object("normalizer"));
        boolean prepends = !steps.isEmpty()
                && steps.getFirst().text("type").equals("Prepend")
                && steps.getFirst().text("prepend").equals(GgufTokenizer.MARK);
        List<LocatedJson> rest = steps.subList(prepends ? 1 : 0, steps.size());
        boolean marks = rest.size() == 1
                && rest.getFirst().text("type").equals("Replace")
                && rest.getFirst().object("pattern").text("String", "").equals(" ")
                && rest.getFirst().text("content").equals(GgufTokenizer.MARK);
        if (!marks || !stages.isEmpty()) {
            throw root.error("llama.cpp marks spaces with " + GgufTokenizer.MARK
                    + " and does nothing else to a text; this has " + "another normalizer or pre-tokenizer");
        }
        return prepends;
    }

    private static String name(LocatedJson root, List<PreTokenizer> stages) {
        boolean composed =
                root.has("normalizer") && root.object("normalizer").text("type").equals("NFC");
        if (root.has("normalizer") && !composed) {
            throw root.at("normalizer").error("llama.cpp has no normalizer for byte-level models");
        }
        boolean ignoresMerges = root.object("model").flag("ignore_merges", false);
        List<String> wanted =
                stages.stream().map(GgufVocabularyConverter::described).toList();
        return NAMES.stream()
                .filter(name -> GgufTokenizer.usesNfc(name) == composed)
                .filter(name -> GgufVocabulary.LIKE_LLAMA3.contains(name) == ignoresMerges)
                .filter(name -> GgufTokenizer.expressions(name).orElseThrow().stream()
                        .map(expression -> described(PreTokenizer.Split.isolated(Splitter.of(expression))))
                        .toList()
                        .equals(wanted))
                .findFirst()
                .orElseThrow(() -> root.at("pre_tokenizer")
                        .error("llama.cpp has no name for a pre-tokenizer that cuts at " + String.join(", ", wanted)
                                + (ignoresMerges ? " and ignores merges" : "")));
    }

    /** A description of a stage; equal stages have equal descriptions. */
    private static String described(PreTokenizer stage) {
        if (!(stage instanceof PreTokenizer.Split(Splitter splitter, MatchSpans.Behavior behavior, boolean invert))) {
            return stage.toString();
        }
        boolean tiles = splitter instanceof BuiltinSplitter && behavior == MatchSpans.Behavior.REMOVED && invert;
        String how = tiles || behavior == MatchSpans.Behavior.ISOLATED && !invert ? "" : " " + behavior + " " + invert;
        return switch (splitter) {
            case Splitter.Regex(var pattern) -> pattern.pattern() + how;
            case Splitter.Literal(char[] string) -> new String(string) + how;
            case BuiltinSplitter scanner -> scanner.expression() + how;
            case Splitter.Each each -> each + how;
            case Splitter.Words words -> words + how;
        };
    }

    /**
     * Converts a byte-level vocabulary to {@code tokenizer.json}. Empty for a vocabulary with scores: HF's format needs
     * a list of merges, and the scores of a truncated vocabulary may correspond to none.
     */
    public static Optional<String> tokenizerJson(GgufVocabulary vocabulary) {
        if (!vocabulary.model().equals("gpt2")) {
            return Optional.empty();
        }
        ObjectNode root = new JsonMapper().createObjectNode();
        root.put("version", "1.0");
        root.putNull("truncation");
        root.putNull("padding");
        ArrayNode added = root.putArray("added_tokens");
        ObjectNode tokens = new JsonMapper().createObjectNode();
        for (int id = 0; id < vocabulary.tokens().length; id++) {
            int type = vocabulary.types().length == 0
                    ? GgufTokenizer.NORMAL
                    : vocabulary.types()[id];
            boolean special = type == GgufTokenizer.UNKNOWN || type == GgufTokenizer.CONTROL;
            if (special || type == GgufTokenizer.USER_DEFINED) {
                ObjectNode token = added.addObject();
                token.put("id", id).put("content", vocabulary.tokens()[id]);
                token.put("single_word", false).put("lstrip", false).put("rstrip", false);
                token.put("normalized", false).put("special", special);
            } else if (type != GgufTokenizer.UNUSED) {
                tokens.put(vocabulary.tokens()[id], id);
            }
        }
        if (GgufTokenizer.usesNfc(vocabulary.pre())) {
            root.putObject("normalizer").put("type", "NFC");
        } else {
            root.putNull("normalizer");
        }
        GgufTokenizer.stages(vocabulary); // throws where the name is unknown
        ObjectNode sequence = root.putObject("pre_tokenizer").put("type", "Sequence");
        ArrayNode stages = sequence.putArray("pretokenizers");
        for (String expression : GgufTokenizer.expressions(vocabulary.pre()).orElseThrow()) {
            ObjectNode split = stages.addObject().put("type", "Split");
            split.putObject("pattern").put("Regex", expression);
            split.put("behavior", "Isolated").put("invert", false);
        }
        byteLevel(stages.addObject(), false);
        postProcessor(root, vocabulary);
        byteLevel(root.putObject("decoder"), true);
        ObjectNode model = root.putObject("model").put("type", "BPE");
        model.putNull("dropout").putNull("unk_token");
        model.putNull("continuing_subword_prefix").putNull("end_of_word_suffix");
        model.put("fuse_unk", false).put("byte_fallback", false);
        model.put("ignore_merges", GgufVocabulary.LIKE_LLAMA3.contains(vocabulary.pre()));
        model.set("vocab", tokens);
        ArrayNode merges = model.putArray("merges");
        for (String merge : vocabulary.merges()) {
            int space = merge.indexOf(' ', 1);
            merges.addArray().add(merge.substring(0, space)).add(merge.substring(space + 1));
        }
        return Optional.of(root.toString());
    }

    private static void byteLevel(ObjectNode node, boolean decodes) {
        node.put("type", "ByteLevel").put("add_prefix_space", decodes);
        node.put("trim_offsets", true).put("use_regex", decodes);
    }

    private static void postProcessor(ObjectNode root, GgufVocabulary vocabulary) {
        if (!vocabulary.addBos() && !vocabulary.addEos()) {
            root.putNull("post_processor");
            return;
        }
        ObjectNode template = root.putObject("post_processor").put("type", "TemplateProcessing");
        ObjectNode special = new JsonMapper().createObjectNode();
        for (String form : List.of("single", "pair")) {
            ArrayNode pieces = template.putArray(form);
            for (String sequence : form.equals("single") ? List.of("A") : List.of("A", "B")) {
                if (vocabulary.addBos()) {
                    special(pieces, special, vocabulary, vocabulary.bos());
                }
                pieces.addObject().putObject("Sequence").put("id", sequence).put("type_id", 0);
                if (vocabulary.addEos()) {
                    special(pieces, special, vocabulary, vocabulary.eos());
                }
            }
        }
        template.set("special_tokens", special);
    }

    private static void special(ArrayNode pieces, ObjectNode special, GgufVocabulary vocabulary, int id) {
        String token = vocabulary.tokens()[id];
        pieces.addObject().putObject("SpecialToken").put("id", token).put("type_id", 0);
        ObjectNode entry = special.putObject(token).put("id", token);
        entry.putArray("ids").add(id);
        entry.putArray("tokens").add(token);
    }
}
