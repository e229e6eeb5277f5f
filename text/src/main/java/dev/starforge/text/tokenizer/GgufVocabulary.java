package dev.starforge.text.tokenizer;

import java.nio.file.Path;
import java.util.Set;

/**
 * The vocabulary of a GGUF file; the fields correspond to the keys of {@code tokenizer.ggml.*}.
 *
 * @param file for error messages
 * @param model {@code gpt2} (byte-level, with merges) or {@code llama} (SentencePiece, with scores)
 * @param pre llama.cpp's name of the pre-tokenizer; empty or {@code default} if the file has none
 * @param scores one per token, or empty; required for {@code llama}
 * @param types one per token, or empty; values as in {@code token_type}
 * @param merges pairs separated by a space; required for {@code gpt2}
 * @param bos -1 if there is none, also for {@code eos} and {@code unknown}
 */
public record GgufVocabulary(
        Path file,
        String model,
        String pre,
        String[] tokens,
        float[] scores,
        int[] types,
        String[] merges,
        int bos,
        int eos,
        int unknown,
        boolean addBos,
        boolean addEos,
        boolean addSpacePrefix) {

    /** Pre-tokenizers whose models begin with a BOS token and ignore merges for words that are tokens. */
    static final Set<String> LIKE_LLAMA3 =
            Set.of("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken");

    /** The default of {@code add_bos_token}. */
    public static boolean addsBosByDefault(String model, String pre) {
        return model.equals("llama") || LIKE_LLAMA3.contains(pre);
    }

    /** The default of {@code add_space_prefix}. */
    public static boolean addsSpaceByDefault(String model) {
        return model.equals("llama");
    }
}
