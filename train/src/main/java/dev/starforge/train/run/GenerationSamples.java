package dev.starforge.train.run;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.model.Model;
import dev.starforge.model.generate.Generator;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DocumentSources;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Completions of held-out prompts before and after training: {@code samples.json}. */
final class GenerationSamples {
    static final String FILE = "samples.json";
    private static final int PROMPT = 64;
    private static final int WRITTEN = 48;
    private static final int LEAST = 16;

    private final Path file;
    private final TrainRun.Setup setup;
    private final Model model;
    private final List<int[]> prompts = new ArrayList<>();

    GenerationSamples(Path run, RunConfig config, TrainRun.Setup setup, Model model, DocumentSources sources) {
        this.file = run.resolve(FILE);
        this.setup = setup;
        this.model = model;
        TokenDocuments documents = sources.validation().count() > 0 ? sources.validation() : sources.train();
        int wanted = setup.tokenizer().isPresent() ? config.get(Keys.SAMPLES) : 0;
        int room = Math.min(PROMPT, model.info().contextLength() - WRITTEN - 1);
        prompts.addAll(prompts(documents, wanted, room));
    }

    /** Different prompts from documents that are evenly spaced over a split. */
    static List<int[]> prompts(TokenDocuments documents, int wanted, int room) {
        List<int[]> prompts = new ArrayList<>();
        int stride = Math.max(1, documents.count() / Math.max(1, wanted));
        for (int first = 0; first < stride; first++) {
            for (int d = first; d < documents.count() && prompts.size() < wanted; d += stride) {
                if (documents.length(d) >= LEAST && room >= LEAST / 2) {
                    prompt(documents.read(d), room)
                            .filter(prompt -> prompts.stream().noneMatch(other -> Arrays.equals(other, prompt)))
                            .ifPresent(prompts::add);
                }
            }
        }
        return prompts;
    }

    /**
     * The beginning of a document. Those of a dataset begin with metadata or a license, so there it is code from the
     * first half of the longest text that counts in the loss; changed functions have it after the end of their file.
     */
    private static Optional<int[]> prompt(TokenDocument document, int room) {
        int[] ids = document.ids();
        if (document.id().startsWith("chunk-")) {
            return Optional.empty();
        }
        if (!document.id().startsWith("commit-") && !document.id().startsWith("files-")) {
            return Optional.of(Arrays.copyOf(ids, Math.min(room, ids.length / 2)));
        }
        int begin = 0;
        int length = 0;
        for (int from = 0, to; from < ids.length; from = to + 1) {
            for (to = from; to < ids.length && document.counted()[to]; to++) {
                // to the end of the run
            }
            if (to - from > length) {
                begin = from;
                length = to - from;
            }
        }
        return length < LEAST
                ? Optional.empty()
                : Optional.of(Arrays.copyOfRange(ids, begin + Math.max(0, length / 2 - room), begin + length / 2));
    }

    /** Completes the prompts with the untrained model. Returns false if stopped; nothing is written then. */
    boolean before(BooleanSupplier stopping) {
        return write("before", stopping);
    }

    boolean after(BooleanSupplier stopping) {
        return write("after", stopping);
    }

    private boolean write(String when, BooleanSupplier stopping) {
        if (prompts.isEmpty()) {
            return true;
        }
        Tokenizer tokenizer = setup.tokenizer().orElseThrow();
        ObjectNode root = Files.exists(file) ? (ObjectNode) Jackson.JSON.readTree(file) : Jackson.object();
        ArrayNode list = root.has("samples") ? (ArrayNode) root.get("samples") : root.putArray("samples");
        for (int i = 0; i < prompts.size(); i++) {
            ObjectNode sample = i < list.size() ? (ObjectNode) list.get(i) : list.addObject();
            sample.put("prompt", tokenizer.decode(prompts.get(i), false));
            sample.put(when, tokenizer.decode(written(prompts.get(i), stopping), false));
            if (stopping.getAsBoolean()) {
                return false;
            }
        }
        Checkpoints.writeAtomically(file, Jackson.indented(root) + "\n");
        return true;
    }

    private int[] written(int[] prompt, BooleanSupplier stopping) {
        int[] ids = new int[WRITTEN];
        int[] at = {0};
        try (Generator generator = new Generator(
                model, setup.device(), setup.precision(), setup.fallback(), prompt.length + WRITTEN + 1)) {
            generator.greedy(prompt, WRITTEN, id -> {
                ids[at[0]++] = id;
                return !stopping.getAsBoolean();
            });
        }
        return Arrays.copyOf(ids, at[0]);
    }
}
