package dev.starforge.train.tune;

import dev.starforge.data.Dataset;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.tensor.Philox;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.corpus.FimTokens;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * Prompts for sample completions: the code before a held-out addition to a function, and the first words of the
 * addition. Neither model has seen the addition, which is kept for comparison. Without fill-in-the-middle tokens there
 * are no prompts.
 *
 * @param path of the file
 * @param before the prompt: the last lines before the addition and its first words
 * @param added the rest of the addition's first lines
 */
record HeldOutPrompts(String path, String before, String added) {
    private static final String CHUNK = "chunk-";
    private static final int SITE = 0x50524f4d;
    private static final int LINES_BEFORE = 12;
    private static final int LEAST_BEFORE = 4;
    private static final int LINES_ADDED = 3;
    private static final int LEAST_ADDED = 16;

    /** The path at the start of a chunk, unless a long prefix was cut off together with its path. */
    private static final Pattern PATH = Pattern.compile("[\\w./-]+[./][\\w-]+");

    /** Draws prompts from different files with a seed. */
    static List<HeldOutPrompts> of(Dataset dataset, Split split, Tokenizer tokenizer, int count, long seed) {
        Optional<FimTokens> markers = FimTokens.of(tokenizer);
        List<HeldOutPrompts> prompts = new ArrayList<>();
        if (markers.isEmpty()) {
            return prompts;
        }
        TokenDocuments documents = dataset.documents(split);
        Set<String> paths = new HashSet<>();
        for (int d : IntStream.range(0, documents.count())
                .boxed()
                .sorted(Comparator.comparingDouble(d -> Philox.uniform(seed, SITE, d)))
                .toList()) {
            TokenDocument document = documents.read(d);
            if (prompts.size() < count && document.id().startsWith(CHUNK)) {
                of(document.ids(), markers.get(), tokenizer)
                        .filter(prompt -> paths.add(prompt.path()))
                        .ifPresent(prompts::add);
            }
        }
        return prompts;
    }

    private static Optional<HeldOutPrompts> of(int[] ids, FimTokens markers, Tokenizer tokenizer) {
        return markers.parts(ids).flatMap(parts -> of(parts, tokenizer));
    }

    private static Optional<HeldOutPrompts> of(FimTokens.Parts parts, Tokenizer tokenizer) {
        String before = tokenizer.decode(parts.prefix(), true);
        String added = tokenizer.decode(parts.middle(), true);
        String path = before.lines().findFirst().orElse("");
        List<String> lines = before.lines().skip(1).toList();
        if (!PATH.matcher(path).matches()
                || lines.stream().filter(line -> !line.isBlank()).count() < LEAST_BEFORE
                || added.strip().length() < LEAST_ADDED) {
            return Optional.empty();
        }
        List<String> last = lines.subList(Math.max(0, lines.size() - LINES_BEFORE), lines.size());
        String written = added.replaceFirst("^(\\s*\\n)+", "");
        int cut = cut(written);
        return Optional.of(new HeldOutPrompts(
                path, String.join("\n", last) + "\n" + written.substring(0, cut), head(written.substring(cut))));
    }

    /** The offset after the first words of the first line, where an editor would ask for a completion. */
    private static int cut(String text) {
        int end = text.indexOf('\n') < 0 ? text.length() : text.indexOf('\n');
        int begin = end - text.substring(0, end).stripLeading().length();
        int space = text.indexOf(' ', begin + (end - begin) / 3);
        return space > 0 && space < end ? space : begin + (end - begin) / 2;
    }

    private static String head(String text) {
        return String.join("\n", text.stripTrailing().lines().limit(LINES_ADDED).toList());
    }
}
