package dev.starforge.text.tokenizer;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.bpe.Bpe;
import dev.starforge.text.bpe.TokenModel;
import dev.starforge.text.bpe.Vocabulary;
import dev.starforge.text.pretokenizer.BuiltinSplitter;
import dev.starforge.text.pretokenizer.MatchSpans;
import dev.starforge.text.pretokenizer.Normalizer;
import dev.starforge.text.pretokenizer.PreTokenizer;
import dev.starforge.text.pretokenizer.Replacement;
import dev.starforge.text.pretokenizer.Splitter;
import java.nio.file.Path;
import java.text.Normalizer.Form;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Parses {@code tokenizer.json}. The file is untrusted. A component that is not supported is an error with its
 * location, never ignored. Truncation and padding are not read, since batches are built elsewhere.
 */
public final class TokenizerJson {
    /** Maximum number of unused ids that added tokens may cause, since each costs memory. */
    private static final int MAX_ADDED = 1 << 20;

    private TokenizerJson() {}

    static Tokenizer read(Path file) {
        return tokenizer(LocatedJson.read(file));
    }

    public static Tokenizer tokenizer(LocatedJson root) {
        if (!root.node().isObject()) {
            throw root.wrong("an object");
        }
        if (!root.text("version", "1.0").equals("1.0")) {
            throw root.at("version").wrong("version 1.0");
        }
        Normalizer normalizer =
                root.has("normalizer") ? normalizer(root.object("normalizer")) : new Normalizer.Sequence(List.of());
        List<PreTokenizer> stages =
                root.has("pre_tokenizer") ? preTokenizers(root.object("pre_tokenizer")) : new ArrayList<>();
        boolean spellsBytes = !stages.isEmpty() && stages.getLast() instanceof PreTokenizer.Bytes;
        if (spellsBytes) {
            stages.removeLast();
        }
        TokenModel model = model(root.object("model"), spellsBytes);
        TemplateProcessing template =
                root.has("post_processor") ? template(root.object("post_processor")) : TemplateProcessing.NOTHING;
        return new Tokenizer(
                root.file(),
                model,
                root.has("added_tokens") ? addedTokens(root, model.vocabulary()) : List.of(),
                normalizer,
                new PreTokenizer.Sequence(stages),
                template,
                root.has("decoder") ? decoder(root.object("decoder")) : new Decoder.Spaced());
    }

    private static Bpe model(LocatedJson json, boolean spellsBytes) {
        if (!json.text("type", "BPE").equals("BPE")) {
            throw json.at("type").wrong("BPE, the only kind of model that is supported");
        }
        if (json.has("dropout") && json.at("dropout").node().doubleValue(1) != 0) {
            throw json.at("dropout").wrong("no dropout: it makes encodings random");
        }
        for (String affix : List.of("continuing_subword_prefix", "end_of_word_suffix")) {
            if (!json.text(affix, "").isEmpty()) {
                throw json.at(affix).wrong("none: it is not supported");
            }
        }
        LocatedJson tokens = json.object("vocab");
        List<Vocabulary.Entry> entries = new ArrayList<>();
        for (String text : tokens.keys()) {
            LocatedJson id = tokens.at(text);
            entries.add(new Vocabulary.Entry(text, id.integer(), id.place()));
        }
        List<Bpe.Merge> merges = new ArrayList<>();
        for (LocatedJson merge : json.list("merges")) {
            List<String> pair = merge.node().isString()
                    ? List.of(merge.text().split(" ", -1))
                    : merge.list().stream().map(LocatedJson::text).toList();
            if (pair.size() != 2) {
                throw merge.wrong("two tokens");
            }
            merges.add(new Bpe.Merge(pair.get(0), pair.get(1), merge.place()));
        }
        if (!merges.isEmpty() && merges.getFirst().left().startsWith("#version")) {
            merges.removeFirst();
        }
        return new Bpe(
                json.file(),
                new Vocabulary(json.file(), entries),
                merges,
                new Bpe.Settings(
                        spellsBytes,
                        json.flag("byte_fallback", false),
                        json.text("unk_token", ""),
                        json.flag("fuse_unk", false),
                        json.flag("ignore_merges", false)));
    }

    private static List<AddedToken> addedTokens(LocatedJson root, Vocabulary vocabulary) {
        List<AddedToken> tokens = new ArrayList<>();
        Set<Integer> ids = new HashSet<>();
        Set<String> contents = new HashSet<>();
        for (LocatedJson json : root.list("added_tokens")) {
            int id = json.integer("id");
            String content = json.text("content");
            int known = vocabulary.id(content);
            if (content.isEmpty()) {
                throw json.at("content").wrong("a text");
            }
            if (known >= 0 && known != id) {
                throw json.at("id").wrong(known + ", the id of " + content + " in the vocabulary");
            }
            if (known < 0 && vocabulary.has(id) || !ids.add(id) || !contents.add(content)) {
                throw json.error("id " + id + " or token " + content + " is already there");
            }
            if (id >= vocabulary.size() + MAX_ADDED) {
                throw json.at("id").wrong("an id below " + (vocabulary.size() + MAX_ADDED));
            }
            boolean special = json.flag("special", false);
            tokens.add(new AddedToken(
                    id,
                    content,
                    json.flag("single_word", false),
                    json.flag("lstrip", false),
                    json.flag("rstrip", false),
                    json.flag("normalized", !special),
                    special));
        }
        return tokens;
    }

    private static Normalizer normalizer(LocatedJson json) {
        String type = json.text("type");
        return switch (type) {
            case "Sequence" ->
                new Normalizer.Sequence(json.list("normalizers").stream()
                        .map(TokenizerJson::normalizer)
                        .toList());
            case "NFC", "NFD", "NFKC", "NFKD" -> Normalizer.Unicode.of(Form.valueOf(type));
            case "Lowercase" -> new Normalizer.Lowercase();
            case "Prepend" -> new Normalizer.Prepend(json.text("prepend"));
            case "Replace" -> new Normalizer.Replace(replacement(json));
            case "Strip" -> new Normalizer.Strip(json.flag("strip_left"), json.flag("strip_right"));
            case "StripAccents" -> new Normalizer.StripAccents();
            default -> throw json.at("type").wrong("a normalizer that is supported");
        };
    }

    static List<PreTokenizer> preTokenizers(LocatedJson json) {
        return preTokenizer(json).collect(Collectors.toCollection(ArrayList::new));
    }

    private static Stream<PreTokenizer> preTokenizer(LocatedJson json) {
        return switch (json.text("type")) {
            case "Sequence" -> json.list("pretokenizers").stream().flatMap(TokenizerJson::preTokenizer);
            case "ByteLevel" -> byteLevel(json);
            case "Split" ->
                Stream.of(new PreTokenizer.Split(
                        splitter(json.object("pattern")), behavior(json, "ISOLATED"), json.flag("invert", false)));
            case "Digits" ->
                Stream.of(new PreTokenizer.Split(
                        Splitter.Each.NUMBER,
                        json.flag("individual_digits") ? MatchSpans.Behavior.ISOLATED : MatchSpans.Behavior.CONTIGUOUS,
                        false));
            case "Punctuation" ->
                Stream.of(new PreTokenizer.Split(Splitter.Each.PUNCTUATION, behavior(json, "ISOLATED"), false));
            case "Whitespace" ->
                Stream.of(new PreTokenizer.Split(new Splitter.Words(), MatchSpans.Behavior.REMOVED, false));
            case "WhitespaceSplit" ->
                Stream.of(new PreTokenizer.Split(Splitter.Each.SPACE, MatchSpans.Behavior.REMOVED, false));
            case "Metaspace" ->
                Stream.of(new PreTokenizer.Metaspace(mark(json), prepend(json), json.flag("split", true)));
            default -> throw json.at("type").wrong("a pre-tokenizer that is supported");
        };
    }

    private static Stream<PreTokenizer> byteLevel(LocatedJson json) {
        Stream.Builder<PreTokenizer> stages = Stream.builder();
        if (json.flag("add_prefix_space")) {
            stages.add(new PreTokenizer.SpaceBefore());
        }
        if (json.flag("use_regex", true)) {
            stages.add(PreTokenizer.Split.isolated(BuiltinSplitter.GPT2));
        }
        return stages.add(new PreTokenizer.Bytes()).build();
    }

    /** {@code Isolated} or {@code isolated}, {@code MergedWithNext} or {@code merged_with_next}. */
    private static MatchSpans.Behavior behavior(LocatedJson json, String missing) {
        String name = json.text("behavior", missing).replace("_", "").toUpperCase(Locale.ROOT);
        for (MatchSpans.Behavior behavior : MatchSpans.Behavior.values()) {
            if (behavior.name().replace("_", "").equals(name)) {
                return behavior;
            }
        }
        throw json.at("behavior").wrong("a behavior");
    }

    private static char mark(LocatedJson json) {
        String mark = json.text("replacement");
        if (mark.length() != 1) {
            throw json.at("replacement").wrong("one character");
        }
        return mark.charAt(0);
    }

    private static PreTokenizer.Metaspace.Prepend prepend(LocatedJson json) {
        PreTokenizer.Metaspace.Prepend prepend = switch (json.text("prepend_scheme", "always")) {
            case "always" -> PreTokenizer.Metaspace.Prepend.ALWAYS;
            case "first" -> PreTokenizer.Metaspace.Prepend.FIRST;
            case "never" -> PreTokenizer.Metaspace.Prepend.NEVER;
            default -> throw json.at("prepend_scheme").wrong("always, first or never");
        };
        boolean contradicted = json.has("prepend_scheme") && prepend != PreTokenizer.Metaspace.Prepend.NEVER;
        if (!json.flag("add_prefix_space", true)) {
            if (contradicted) {
                throw json.at("add_prefix_space").wrong("true, as prepend_scheme says");
            }
            return PreTokenizer.Metaspace.Prepend.NEVER;
        }
        return prepend;
    }

    private static Replacement replacement(LocatedJson json) {
        return new Replacement(splitter(json.object("pattern")), json.text("content"));
    }

    private static Splitter splitter(LocatedJson json) {
        if (json.has("String") && !json.text("String").isEmpty()) {
            return new Splitter.Literal(json.text("String").toCharArray());
        }
        LocatedJson expression = json.at("Regex");
        try {
            return Splitter.of(expression.text());
        } catch (IllegalArgumentException wrong) {
            throw expression.error(String.valueOf(wrong.getMessage()));
        }
    }

    static TemplateProcessing template(LocatedJson json) {
        return switch (json.text("type")) {
            case "ByteLevel" -> TemplateProcessing.NOTHING;
            case "TemplateProcessing" -> single(json);
            case "Sequence" -> {
                TemplateProcessing only = TemplateProcessing.NOTHING;
                for (LocatedJson processor : json.list("processors")) {
                    TemplateProcessing next = template(processor);
                    if (only != TemplateProcessing.NOTHING && next != TemplateProcessing.NOTHING) {
                        throw processor.wrong("one template at most");
                    }
                    only = next == TemplateProcessing.NOTHING ? only : next;
                }
                yield only;
            }
            default -> throw json.at("type").wrong("a post-processor that is supported");
        };
    }

    private static TemplateProcessing single(LocatedJson json) {
        TokenIdList before = new TokenIdList();
        TokenIdList after = new TokenIdList();
        boolean seen = false;
        for (LocatedJson piece : json.list("single")) {
            if (piece.has("Sequence")) {
                if (seen || !piece.object("Sequence").text("id").equals("A")) {
                    throw piece.wrong("sequence A once");
                }
                seen = true;
            } else {
                String name = piece.object("SpecialToken").text("id");
                for (LocatedJson id : json.object("special_tokens").object(name).list("ids")) {
                    (seen ? after : before).add(id.integer());
                }
            }
        }
        if (!seen) {
            throw json.at("single").wrong("sequence A");
        }
        return new TemplateProcessing(before.toArray(), after.toArray());
    }

    private static Decoder decoder(LocatedJson json) {
        return switch (json.text("type")) {
            case "Sequence" ->
                new Decoder.Sequence(json.list("decoders").stream()
                        .map(TokenizerJson::decoder)
                        .toList());
            case "ByteLevel" -> new Decoder.Bytes();
            case "ByteFallback" -> new Decoder.ByteFallback();
            case "Fuse" -> new Decoder.Fuse();
            case "Replace" -> new Decoder.Replace(replacement(json));
            case "Strip" -> {
                String content = json.text("content");
                if (content.codePointCount(0, content.length()) != 1) {
                    throw json.at("content").wrong("one character");
                }
                yield new Decoder.Strip(content.codePointAt(0), json.integer("start"), json.integer("stop"));
            }
            case "Metaspace" ->
                new Decoder.Metaspace(mark(json), prepend(json) != PreTokenizer.Metaspace.Prepend.NEVER);
            default -> throw json.at("type").wrong("a decoder that is supported");
        };
    }
}
