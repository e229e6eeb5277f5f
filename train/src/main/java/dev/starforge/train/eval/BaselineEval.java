package dev.starforge.train.eval;

import dev.starforge.data.TokenDocuments;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import tools.jackson.databind.node.ObjectNode;

/** Bits per byte of byte statistics and of a compressor, as a scale for those of a model. */
final class BaselineEval {
    private static final int MAX_CHARACTERS = 4 << 20;

    private BaselineEval() {}

    static void report(
            ObjectNode node, TokenDocuments training, List<String> texts, Tokenizer tokenizer, Evaluation.Tools tools) {
        byte[] train = joined(training, tokenizer);
        byte[] test = joined(texts);
        node.put("kneser_ney_3_bits_per_byte", ByteModels.kneserNey(train, test));
        node.put("ppm_5_bits_per_byte", ByteModels.partialMatching(train, test));
        OptionalLong alone = tools.xz(test);
        if (alone.isEmpty() || test.length == 0) {
            node.putNull("xz_9_bits_per_byte").putNull("xz_9_after_train_bits_per_byte");
            return;
        }
        node.put("xz_9_bits_per_byte", 8.0 * alone.getAsLong() / test.length);
        byte[] both = Arrays.copyOf(train, train.length + test.length);
        System.arraycopy(test, 0, both, train.length, test.length);
        OptionalLong first = tools.xz(train);
        OptionalLong all = tools.xz(both);
        if (first.isPresent() && all.isPresent()) {
            node.put("xz_9_after_train_bits_per_byte", 8.0 * (all.getAsLong() - first.getAsLong()) / test.length);
        } else {
            node.putNull("xz_9_after_train_bits_per_byte");
        }
    }

    private static byte[] joined(TokenDocuments documents, Tokenizer tokenizer) {
        List<String> texts = new ArrayList<>();
        long length = 0;
        for (int d = 0; d < documents.count() && length < MAX_CHARACTERS; d++) {
            texts.add(tokenizer.decode(documents.read(d).ids(), true));
            length += texts.getLast().length();
        }
        return joined(texts);
    }

    private static byte[] joined(List<String> texts) {
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < texts.size() && all.length() < MAX_CHARACTERS; i++) {
            all.append(texts.get(i));
        }
        return all.toString().getBytes(StandardCharsets.UTF_8);
    }
}
