package dev.starforge.text.tokenizer;

import java.nio.file.Path;
import java.util.Set;

/**
 * The vocabulary of a GGUF file as plain data; the keys are those of {@code tokenizer.ggml.*}.
 *
 * @param file for error messages
 * @param model {@code gpt2} (byte-level, with merges) or {@code llama} (SentencePiece, with scores)
 * @param pre llama.cpp's name of the pre-tokenizer; empty or {@code default} when the file has none
 * @param scores one for each token, or none at all; {@code llama} alone needs them
 * @param types one for each token, or none at all; as {@code token_type} has them
 * @param merges pairs with a space between them; {@code gpt2} alone needs them
 * @param bos -1 when there is none, as for {@code eos} and {@code unknown}
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

    /** Pre-tokenizers whose models begin with a BOS token, and take a word that is a token as that token. */
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
