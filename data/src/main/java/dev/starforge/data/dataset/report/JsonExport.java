package dev.starforge.data.dataset.report;

import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenShard;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;

/**
 * Writes the shards as JSON of token ids in two schemas of other programs: {@code token_sequences.json} with the training
 * documents, and {@code training_data_enhanced_*.json} with each document as a context and a target. The target begins with
 * the first id that counts in the loss; {@code loss_mask}, a key of our own, marks which ids count.
 */
public final class JsonExport {
    private final Path folder;
    private final Tokenizer tokenizer;

    public JsonExport(Path folder, Tokenizer tokenizer) {
        this.folder = folder;
        this.tokenizer = tokenizer;
    }

    public void write(DatasetConfig.ExportFormat which) throws IOException {
        if (which != DatasetConfig.ExportFormat.ENHANCED) {
            sequences();
        }
        if (which != DatasetConfig.ExportFormat.SEQUENCES) {
            for (Split split : Split.values()) {
                enhanced(split);
            }
        }
    }

    private void sequences() throws IOException {
        try (TokenShard shard = TokenShard.open(folder.resolve(Split.TRAIN.shard()));
                BufferedWriter out = Files.newBufferedWriter(folder.resolve("token_sequences.json"))) {
            int longest = 0;
            out.write("{\"token_sequences\":[");
            for (int d = 0; d < shard.count(); d++) {
                out.write(d == 0 ? "\n" : ",\n");
                numbers(out, shard.read(d).ids(), 0, shard.length(d));
                longest = Math.max(longest, shard.length(d));
            }
            out.write("\n],\"vocab_size\":" + tokenizer.size() + ",\"num_sequences\":" + shard.count()
                    + ",\"total_tokens\":" + shard.tokens() + ",\"sequence_length\":" + longest
                    + ",\"metadata\":{\"loss_masks\":[");
            for (int d = 0; d < shard.count(); d++) {
                out.write(d == 0 ? "\n" : ",\n");
                numbers(out, mask(shard.read(d)), 0, shard.length(d));
            }
            out.write("\n]}}\n");
        }
    }

    private void enhanced(Split split) throws IOException {
        try (TokenShard shard = TokenShard.open(folder.resolve(split.shard()));
                BufferedWriter out =
                        Files.newBufferedWriter(folder.resolve("training_data_enhanced_" + split.label() + ".json"))) {
            out.write("[");
            for (int d = 0; d < shard.count(); d++) {
                TokenDocument document = shard.read(d);
                int[] mask = mask(document);
                int first = 0;
                while (first < mask.length && mask[first] == 0) {
                    first++;
                }
                out.write((d == 0 ? "\n" : ",\n") + "{\"context\":");
                numbers(out, document.ids(), 0, first);
                out.write(",\"target\":");
                numbers(out, document.ids(), first, mask.length);
                out.write(",\"context_mask\":");
                ones(out, first);
                out.write(",\"target_mask\":");
                ones(out, mask.length - first);
                out.write(",\"loss_mask\":");
                numbers(out, mask, 0, mask.length);
                out.write(",\"commit_hash\":\"" + shard.origin(d).commit() + "\",\"num_chunks\":1,\"example_type\":\""
                        + document.id().substring(0, document.id().indexOf('-')) + "\"}");
            }
            out.write("\n]\n");
        }
    }

    private static int[] mask(TokenDocument document) {
        int[] mask = new int[document.ids().length];
        for (int i = 0; i < mask.length; i++) {
            mask[i] = document.counted()[i] ? 1 : 0;
        }
        return mask;
    }

    private static void numbers(Writer out, int[] numbers, int from, int to) throws IOException {
        out.write("[");
        for (int i = from; i < to; i++) {
            out.write((i == from ? "" : ",") + numbers[i]);
        }
        out.write("]");
    }

    private static void ones(Writer out, int count) throws IOException {
        out.write("[" + String.join(",", Collections.nCopies(count, "1")) + "]");
    }
}
