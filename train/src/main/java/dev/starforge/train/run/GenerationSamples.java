package dev.starforge.train.run;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.model.Model;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampler;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DocumentSources;
import dev.starforge.train.corpus.FimTokens;
import dev.starforge.train.corpus.HeldOutLine;
import dev.starforge.train.text.Continuation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Completions of held-out lines before and after training: {@code samples.json}. Documents without such lines, of other
 * sources than {@code dataset}, are completed from their beginning.
 */
final class GenerationSamples {
    static final String FILE = "samples.json";
    private static final int PROMPT = 64;
    private static final int WRITTEN = 48;
    private static final String COMMIT = "commit-";
    private static final int LEAST = 16;

    private final Path file;
    private final TrainRun.Setup setup;
    private final Model model;
    private final Set<Prompt> prompts = new LinkedHashSet<>();

    /**
     * A prompt, with the original text if it is a line.
     *
     * @param path of the file; empty if it is unknown
     */
    private record Prompt(String path, String text, String original) {}

    GenerationSamples(Path run, RunConfig config, TrainRun.Setup setup, Model model, DocumentSources sources) {
        this.file = run.resolve(FILE);
        this.setup = setup;
        this.model = model;
        TokenDocuments documents = sources.validation().count() > 0 ? sources.validation() : sources.train();
        int wanted = setup.tokenizer().isPresent() ? config.get(Keys.SAMPLES) : 0;
        if (wanted > 0) {
            Tokenizer tokenizer = setup.tokenizer().orElseThrow();
            HeldOutLine.first(documents, tokenizer, wanted)
                    .forEach(line -> prompts.add(new Prompt(line.path(), line.before(), line.added())));
            for (int d = 0; d < documents.count() && prompts.size() < wanted; d++) {
                beginning(documents.read(d), tokenizer).ifPresent(prompts::add);
            }
        }
    }

    /**
     * The beginning of a document; for a commit or a document for fill-in-the-middle, which begin with other text, the first half of the
     * longest text that counts in the loss.
     */
    private static Optional<Prompt> beginning(TokenDocument document, Tokenizer tokenizer) {
        int[] ids = document.ids();
        boolean plain =
                FimTokens.of(tokenizer).map(markers -> markers.isFreeOf(ids)).orElse(true);
        int from = 0;
        int length = ids.length;
        if (document.id().startsWith(COMMIT) || !plain) {
            length = 0;
            for (int begin = 0, end; begin < ids.length; begin = end + 1) {
                for (end = begin; end < ids.length && document.counted()[end]; end++) {
                    // to the end of the text
                }
                if (end - begin > length) {
                    from = begin;
                    length = end - begin;
                }
            }
        }
        if (length < LEAST) {
            return Optional.empty();
        }
        int[] kept = Arrays.copyOfRange(ids, from, from + Math.min(PROMPT, length / 2));
        return Optional.of(new Prompt("", tokenizer.decode(kept, true), ""));
    }

    /** Completes the prompts with the untrained model. Returns false if stopped; nothing is written then. */
    boolean before(BooleanSupplier stopping) {
        return write("before", stopping);
    }

    boolean after(BooleanSupplier stopping) {
        return write("after", stopping);
    }

    private boolean write(String when, BooleanSupplier stopping) {
        int room = model.info().contextLength() - WRITTEN - 1;
        if (prompts.isEmpty() || room < 8) {
            return true;
        }
        Tokenizer tokenizer = setup.tokenizer().orElseThrow();
        ObjectNode root = Files.exists(file) ? (ObjectNode) Jackson.JSON.readTree(file) : Jackson.object();
        ArrayNode list = root.has("samples") ? (ArrayNode) root.get("samples") : root.putArray("samples");
        int i = 0;
        for (Prompt prompt : prompts) {
            ObjectNode sample = i < list.size() ? (ObjectNode) list.get(i) : list.addObject();
            sample.put("path", prompt.path()).put("prompt", prompt.text()).put("original", prompt.original());
            sample.put(when, written(tokenizer.heal(tokenizer.encodeLast(prompt.text(), room)), tokenizer, stopping));
            if (stopping.getAsBoolean()) {
                return false;
            }
            i++;
        }
        Checkpoints.writeAtomically(file, Jackson.indented(root) + "\n");
        return true;
    }

    /** Completes a prompt greedily, up to a special token or a loop. */
    private String written(HealedPrompt prompt, Tokenizer tokenizer, BooleanSupplier stopping) {
        Continuation text = new Continuation(tokenizer, prompt, List.of());
        Sampler greedy = new Sampler(SamplingParams.GREEDY, model.info().vocabSize());
        try (Generator generator = new Generator(
                model, setup.device(), setup.precision(), setup.fallback(), prompt.ids().length + WRITTEN + 1)) {
            generator.generate(prompt.ids(), prompt::allowed, greedy, WRITTEN, id -> {
                if (tokenizer.isSpecial(id)) {
                    return false;
                }
                text.push(id);
                return !text.isLooping() && !stopping.getAsBoolean();
            });
        }
        text.finish();
        return text.text();
    }
}
