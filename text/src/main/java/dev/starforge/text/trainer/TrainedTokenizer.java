package dev.starforge.text.trainer;

import dev.starforge.text.TokenizerException;
import dev.starforge.text.pretokenizer.Splitter;
import dev.starforge.text.tokenizer.LocatedJson;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.tokenizer.TokenizerJson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** A trained tokenizer as the text of a {@code tokenizer.json}. */
public final class TrainedTokenizer {
    private static final JsonMapper JSON = new JsonMapper();

    private final String json;

    private TrainedTokenizer(String json) {
        this.json = json;
    }

    static TrainedTokenizer of(BpeTrainer.Settings settings, List<String> tokens, List<int[]> merges) {
        ObjectNode root = JSON.createObjectNode();
        root.put("version", "1.0").putNull("truncation").putNull("padding");
        ArrayNode added = root.putArray("added_tokens");
        for (String special : settings.specialTokens().stream().distinct().toList()) {
            added.addObject()
                    .put("id", tokens.indexOf(special))
                    .put("content", special)
                    .put("single_word", false)
                    .put("lstrip", false)
                    .put("rstrip", false)
                    .put("normalized", false)
                    .put("special", true);
        }
        BpeTrainer.Splitting splitting = settings.splitting();
        if (splitting == BpeTrainer.Splitting.QWEN2) {
            root.putObject("normalizer").put("type", "NFC");
        } else {
            root.putNull("normalizer");
        }
        preTokenizer(root.putObject("pre_tokenizer"), splitting);
        root.putNull("post_processor");
        byteLevel(root.putObject("decoder"), true);
        ObjectNode model = root.putObject("model").put("type", "BPE");
        model.putNull("dropout").putNull("unk_token").putNull("continuing_subword_prefix");
        model.putNull("end_of_word_suffix").put("fuse_unk", false).put("byte_fallback", false);
        model.put("ignore_merges", splitting == BpeTrainer.Splitting.LLAMA3);
        ObjectNode vocabulary = model.putObject("vocab");
        for (int id = 0; id < tokens.size(); id++) {
            vocabulary.put(tokens.get(id), id);
        }
        ArrayNode pairs = model.putArray("merges");
        for (int[] merge : merges) {
            pairs.addArray().add(tokens.get(merge[0])).add(tokens.get(merge[1]));
        }
        return new TrainedTokenizer(JSON.writerWithDefaultPrettyPrinter().writeValueAsString(root));
    }

    private static void preTokenizer(ObjectNode node, BpeTrainer.Splitting splitting) {
        switch (splitting) {
            case GPT2 -> byteLevel(node, true);
            case STARCODER2 -> {
                ArrayNode stages = node.put("type", "Sequence").putArray("pretokenizers");
                stages.addObject().put("type", "Digits").put("individual_digits", true);
                byteLevel(stages.addObject(), true);
            }
            case LLAMA3 -> split(node, Splitter.LLAMA3.formatted("{1,3}"));
            case QWEN2 -> split(node, Splitter.LLAMA3.formatted(""));
        }
    }

    private static void split(ObjectNode node, String expression) {
        ArrayNode stages = node.put("type", "Sequence").putArray("pretokenizers");
        ObjectNode split = stages.addObject().put("type", "Split");
        split.putObject("pattern").put("Regex", expression);
        split.put("behavior", "Isolated").put("invert", false);
        byteLevel(stages.addObject(), false);
    }

    private static void byteLevel(ObjectNode node, boolean regex) {
        node.put("type", "ByteLevel").put("add_prefix_space", false);
        node.put("trim_offsets", true).put("use_regex", regex);
    }

    /**
     * Returns a tokenizer that puts a token before every text. A model trained on documents that all begin with a
     * special token attends to that token (attention sink) and fails on text without it.
     */
    public TrainedTokenizer beginningWith(String token) {
        ObjectNode root = (ObjectNode) JSON.readTree(json);
        int id = root.path("model").path("vocab").path(token).intValue();
        ObjectNode template = root.putObject("post_processor").put("type", "TemplateProcessing");
        for (String form : List.of("single", "pair")) {
            ArrayNode pieces = template.putArray(form);
            pieces.addObject().putObject("SpecialToken").put("id", token).put("type_id", 0);
            pieces.addObject().putObject("Sequence").put("id", "A").put("type_id", 0);
            if (form.equals("pair")) {
                pieces.addObject().putObject("Sequence").put("id", "B").put("type_id", 0);
            }
        }
        ObjectNode entry = template.putObject("special_tokens").putObject(token).put("id", token);
        entry.putArray("ids").add(id);
        entry.putArray("tokens").add(token);
        return new TrainedTokenizer(JSON.writerWithDefaultPrettyPrinter().writeValueAsString(root));
    }

    public Tokenizer tokenizer() {
        return TokenizerJson.tokenizer(LocatedJson.parse(Path.of("trained"), json));
    }

    /** Writes the file atomically: to a temporary name first, then renamed. */
    public void write(Path file) {
        Path partial = file.resolveSibling(file.getFileName() + ".partial");
        try {
            Files.writeString(partial, json, StandardCharsets.UTF_8);
            Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new TokenizerException(file, "cannot be written: " + failure, failure);
        }
    }
}
