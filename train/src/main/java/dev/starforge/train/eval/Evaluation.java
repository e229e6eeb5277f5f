package dev.starforge.train.eval;

import dev.starforge.data.TokenDocuments;
import dev.starforge.model.Model;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampler;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.text.fim.SuffixStops;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.Corpus;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.corpus.DocumentSources;
import dev.starforge.train.corpus.FimTokens;
import dev.starforge.train.text.Continuation;
import dev.starforge.train.weights.TrainableModel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Evaluates a model on held-out documents: perplexity and bits per byte; completion of the next line and of a line or a
 * block in context; and the parse rate of completed prompts. With an adapter, base and tuned model are compared, with a
 * confidence interval for each metric. Byte statistics and a compressor give a baseline.
 */
public final class Evaluation {
    private final Setup setup;
    private final Tokenizer tokenizer;
    private final Optional<FimTokens> fim;

    /**
     * @param samples number of lines and of blocks to complete
     * @param orientation whether to measure the baselines as well, which takes additional time
     * @param progress receives progress messages
     */
    public record Setup(
            RunConfig config,
            Path model,
            Optional<Path> adapter,
            Tokenizer tokenizer,
            Device device,
            Precision precision,
            Fallback fallback,
            String split,
            int samples,
            boolean orientation,
            Tools tools,
            LongSupplier nanoTime,
            Consumer<String> progress) {
        /**
         * Completes a prompt greedily until a special token, a repetition of the suffix or a loop, until {@code more} returns false, or
         * up to {@code maxTokens} tokens.
         */
        Written greedy(Model model, HealedPrompt prompt, int maxTokens, SuffixStops stops, Predicate<String> more) {
            Continuation text = new Continuation(tokenizer, prompt, stops);
            int[] count = {0};
            Sampler greedy = new Sampler(SamplingParams.GREEDY, model.info().vocabSize());
            try (Generator generator =
                    new Generator(model, device, precision, fallback, prompt.ids().length + maxTokens + 1)) {
                generator.generate(prompt.ids(), prompt::allowed, greedy, maxTokens, id -> {
                    if (tokenizer.isSpecial(id)) {
                        return false;
                    }
                    count[0]++;
                    boolean goesOn = more.test(text.push(id));
                    return goesOn && !text.isLooping() && text.stopSequence().isEmpty();
                });
            }
            text.finish();
            return new Written(text.text(), count[0] == maxTokens);
        }
    }

    /** A completion; {@code cut} is true if it ended at the token limit. */
    record Written(String text, boolean cut) {}

    /**
     * External programs. If a program is not available, its methods return an empty result, reported as not measured.
     */
    public interface Tools {
        /** Number of syntax errors of a text under a grammar. */
        OptionalInt errors(String grammar, String text);

        /** Size of a text in bytes after {@code xz -9}. */
        OptionalLong xz(byte[] text);

        /** No tools available. */
        Tools NONE = new Tools() {
            @Override
            public OptionalInt errors(String grammar, String text) {
                return OptionalInt.empty();
            }

            @Override
            public OptionalLong xz(byte[] text) {
                return OptionalLong.empty();
            }
        };
    }

    public Evaluation(Setup setup) {
        this.setup = setup;
        this.tokenizer = setup.tokenizer();
        this.fim = FimTokens.of(tokenizer);
    }

    /** The metrics of one model. */
    private record Results(
            PerplexityEval likelihood,
            Map<CompletionEval.Task, CompletionEval> completions,
            List<Continued> continued) {
        void report(ObjectNode column) {
            likelihood.report(column);
            completions.forEach((task, each) -> each.report(column, task));
            parseRate(column, continued);
        }
    }

    /** The completion of a prompt; {@code parses} is empty if no grammar is available. */
    private record Continued(String text, Optional<Boolean> parses) {}

    public ObjectNode run() {
        ObjectNode report = Jackson.object();
        try (ModelFiles files = ModelFiles.open(setup.model());
                DocumentSources sources = DocumentSources.open(
                        setup.config(),
                        setup.model(),
                        TrainableModel.shapes(files, setup.device()).vocabSize(),
                        Optional.of(tokenizer))) {
            Model.ModelInfo facts = TrainableModel.shapes(files, setup.device());
            TokenDocuments documents = setup.split().equals("test") ? sources.test() : sources.validation();
            if (documents.count() == 0) {
                throw DocumentSources.empty(setup.config(), setup.split().equals("test") ? Keys.TEST : Keys.VALIDATION);
            }
            int context = Math.min(setup.config().get(Keys.CONTEXT), facts.contextLength());
            Corpus corpus =
                    new Corpus(documents, facts.vocabSize(), document -> 1, Corpus.Settings.plain(context, fim));
            if (corpus.windows() == 0) {
                throw setup.config()
                        .wrong(
                                Keys.CONTEXT,
                                "eval: the " + setup.split() + " split cannot be evaluated: "
                                        + (corpus.facts().dropped() > 0
                                                ? corpus.facts().describeDropped()
                                                : "no document has a token that counts in the loss"));
            }
            Corpus.Sample sample = corpus.sample(
                    setup.config().get(Keys.EVALUATION_TOKENS), setup.config().get(Keys.SEED));
            int[] chosen = sample.windows().stream()
                    .mapToInt(corpus::document)
                    .distinct()
                    .toArray();
            describe(report, corpus.facts(), sample, chosen.length);
            List<int[]> read =
                    Arrays.stream(chosen).mapToObj(d -> documents.read(d).ids()).toList();
            List<CompletionEval.Passage> passages = CompletionEval.passages(read, tokenizer, fim);
            Map<CompletionEval.Task, List<CompletionEval.Gap>> gaps = new EnumMap<>(CompletionEval.Task.class);
            for (CompletionEval.Task task : CompletionEval.Task.values()) {
                gaps.put(task, CompletionEval.gaps(task, passages, setup.samples(), fim));
            }
            List<BehaviouralEval.Prompt> prompts = BehaviouralEval.prompts(setup.config(), sources.languages());
            List<Results> results = new ArrayList<>();
            for (boolean tuned : setup.adapter().isPresent() ? new boolean[] {false, true} : new boolean[] {false}) {
                String name = tuned ? "the tuned model" : "the base";
                setup.progress().accept("evaluating " + name + " on " + sample.describe());
                try (Scope weights = new Scope(setup.device())) {
                    Model model = load(files, weights, tuned);
                    PerplexityEval likelihood = PerplexityEval.of(name, model, setup, corpus, sample, chosen);
                    Map<CompletionEval.Task, CompletionEval> completions = new EnumMap<>(CompletionEval.Task.class);
                    gaps.forEach(
                            (task, each) -> completions.put(task, CompletionEval.of(task, each, name, model, setup)));
                    Results measured = new Results(likelihood, completions, continued(model, prompts));
                    measured.report(report.putObject(tuned ? "tuned" : "base"));
                    results.add(measured);
                }
            }
            if (results.size() == 2) {
                compare(report.putObject("tuned_minus_base"), results.get(0), results.get(1));
            }
            prompts(report, prompts, results);
            if (setup.orientation()) {
                List<String> texts =
                        read.stream().map(ids -> tokenizer.decode(ids, true)).toList();
                BaselineEval.report(report.putObject("orientation"), sources.train(), texts, tokenizer, setup.tools());
            }
        }
        return report;
    }

    private Model load(ModelFiles files, Scope weights, boolean tuned) {
        if (!tuned) {
            return base(files).load(weights, setup.precision());
        }
        try (LoraAdapter adapter =
                LoraAdapter.open(Checkpoints.resolve(setup.adapter().orElseThrow()), weights)) {
            return base(files).load(weights, setup.precision(), adapter);
        }
    }

    private ModelFiles base(ModelFiles files) {
        return files.quantized(setup.config().quantization());
    }

    private void describe(ObjectNode report, DataFacts facts, Corpus.Sample sample, int documents) {
        report.put("model", setup.model().toString());
        report.put("split", setup.split());
        report.put("documents", documents);
        report.put("documents_of_split", facts.documents());
        report.put("dropped_documents", facts.dropped());
        ObjectNode node = report.putObject("sample");
        node.put("tokens", sample.tokens()).put("of", sample.of()).put("loss_tokens", sample.lossTokens());
        node.put("seed", sample.seed()).put("text", sample.describe());
        if (facts.dropped() > 0) {
            report.put("note", facts.describeDropped());
        }
    }

    private List<Continued> continued(Model model, List<BehaviouralEval.Prompt> prompts) {
        List<Continued> all = new ArrayList<>();
        for (BehaviouralEval.Prompt prompt : prompts) {
            int context =
                    Math.min(setup.config().get(Keys.CONTEXT), model.info().contextLength());
            int most = Math.min(setup.config().get(Keys.PROMPT_TOKENS), context / 2);
            int[] ids = tokenizer.encodeLast(prompt.text(), context - most - 1);
            Written written = setup.greedy(model, tokenizer.heal(ids), most, SuffixStops.NONE, _ -> true);
            all.add(new Continued(
                    written.text(), BehaviouralEval.parses(prompt, written.text(), written.cut(), setup.tools())));
        }
        return all;
    }

    private static void parseRate(ObjectNode column, List<Continued> continued) {
        double[] parses = parses(continued);
        if (parses.length == 0) {
            column.putNull("prompts");
            return;
        }
        ObjectNode node = column.putObject("prompts").put("samples", parses.length);
        MetricEstimates.put(node, "parse_rate", BootstrapInterval.mean(parses));
    }

    private static double[] parses(List<Continued> continued) {
        return continued.stream()
                .flatMap(each -> each.parses().stream())
                .mapToDouble(good -> good ? 1 : 0)
                .toArray();
    }

    private static void prompts(ObjectNode report, List<BehaviouralEval.Prompt> prompts, List<Results> results) {
        ArrayNode list = report.putArray("prompts");
        for (int i = 0; i < prompts.size(); i++) {
            ObjectNode node = list.addObject();
            node.put("language", prompts.get(i).language())
                    .put("prompt", prompts.get(i).text());
            for (int r = 0; r < results.size(); r++) {
                Continued one = results.get(r).continued().get(i);
                ObjectNode column = node.putObject(r == 0 ? "base" : "tuned").put("text", one.text());
                one.parses().ifPresentOrElse(good -> column.put("parses", good), () -> column.putNull("parses"));
            }
        }
    }

    private static void compare(ObjectNode node, Results base, Results tuned) {
        tuned.likelihood().compare(node, base.likelihood());
        double[] parsesTuned = parses(tuned.continued());
        double[] parsesBase = parses(base.continued());
        if (parsesTuned.length > 0 && parsesTuned.length == parsesBase.length) {
            MetricEstimates.put(
                    node.putObject("prompts"), "parse_rate", BootstrapInterval.difference(parsesTuned, parsesBase));
        }
        tuned.completions()
                .forEach((task, one) -> one.compare(
                        node, task, Objects.requireNonNull(base.completions().get(task))));
    }
}
