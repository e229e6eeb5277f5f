package dev.starforge.cli.command;

import dev.starforge.cli.model.DefaultModel;
import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.output.GeneratedText;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.StandardInput;
import dev.starforge.model.Model;
import dev.starforge.model.generate.GenerationException;
import dev.starforge.model.generate.GenerationException.Violation;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampler;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.generate.StopStrings;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Scope;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.text.Continuation;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "generate",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        customSynopsis = {
            "starforge generate [MODEL] [OPTIONS]",
            "                   [--prompt=TEXT | --prompt-ids=ID,... | --fim PREFIX SUFFIX]",
        },
        description = {
            "Generate text from one prompt.",
            "",
            "Writes the generated text to standard output as it is produced. Without a prompt option, reads the prompt"
                    + " from standard input, including a final newline.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge generate MODEL --prompt 'def fibonacci(n):' --max-tokens 64",
            "  starforge generate MODEL --temperature 0.8 --top-p 0.95 --seed 7 < prompt.txt",
            "  starforge generate MODEL --fim 'def add(a, b):' 'print(add(1, 2))'",
            "  starforge generate MODEL --prompt 'import' --stop $'\\n\\n' --stop 'def '",
            "  starforge generate RUN --prompt 'def f(n):'    # a training run with its base",
            "  starforge generate MODEL --prompt-ids 5,6,7 --adapter ADAPTER --json",
        })
final class GenerateCommand implements Callable<Integer> {
    private final StandardInput input;
    private final LongSupplier nanoTime;

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Mixin
    private ModelFlags models;

    @Parameters(paramLabel = "MODEL", arity = "0..1", description = ModelFlags.KINDS_OR_DEFAULT)
    private String name;

    @ArgGroup
    private Source source = new Source();

    /** The prompt; standard input if none of these options is given. */
    private static final class Source {
        @Option(names = "--prompt", paramLabel = "TEXT", description = "Prompt; - reads standard input.")
        private String text;

        @Option(
                names = "--prompt-ids",
                split = ",",
                paramLabel = "ID",
                description = "Prompt as token ids, separated by commas. Implies --ids.")
        private int[] ids;

        @Option(
                names = "--fim",
                arity = "2",
                paramLabel = "PREFIX SUFFIX",
                hideParamSyntax = true,
                description = "Code before and after the position to fill in. Requires a model with fill-in-the-middle"
                        + " tokens.")
        private String[] fim;
    }

    @Option(
            names = "--max-tokens",
            defaultValue = "32",
            paramLabel = "N",
            description = "Maximum number of new tokens. Default: ${DEFAULT-VALUE}.")
    private int maxTokens;

    @Option(
            names = "--temperature",
            paramLabel = "T",
            description =
                    "Sampling temperature, 0 to 2; 0 is greedy decoding. Default: 0; 1 with --top-k, --top-p, --min-p,"
                            + " --typical or --seed.")
    private Double temperature;

    @Option(
            names = "--top-k",
            defaultValue = "0",
            paramLabel = "K",
            description = "Sample from the K most likely tokens; 0 disables. Default: 0.")
    private int topK;

    @Option(
            names = "--top-p",
            defaultValue = "1",
            paramLabel = "P",
            description = "Nucleus sampling: sample from the most likely tokens with total probability P, above 0 to 1."
                    + " Default: 1.")
    private double topP;

    @Option(
            names = "--min-p",
            defaultValue = "0",
            paramLabel = "P",
            description =
                    "Sample from tokens with at least P times the probability of the most likely token, 0 to below 1."
                            + " Default: 0.")
    private double minP;

    @Option(
            names = {"--typical", "--typical-p"},
            defaultValue = "1",
            paramLabel = "P",
            description = "Locally typical sampling with total probability P, above 0 to 1. Default: 1.")
    private double typicalP;

    @Option(
            names = "--repetition-penalty",
            defaultValue = "1",
            paramLabel = "X",
            description =
                    "Penalty for tokens of the prompt and the generated text; 1 disables, higher values penalize more."
                            + " Default: 1.")
    private double repetitionPenalty;

    @Option(
            names = "--presence-penalty",
            defaultValue = "0",
            paramLabel = "X",
            description =
                    "Value subtracted from the logit of each token that was already generated, -2 to 2. Default: 0.")
    private double presencePenalty;

    @Option(
            names = "--frequency-penalty",
            defaultValue = "0",
            paramLabel = "X",
            description =
                    "Value subtracted from the logit of a token for each time it was generated, -2 to 2. Default: 0.")
    private double frequencyPenalty;

    @Option(names = "--seed", defaultValue = "0", paramLabel = "N", description = "Seed of the sampler. Default: 0.")
    private long seed;

    @Option(
            names = "--stop",
            paramLabel = "TEXT",
            description = "Stop before this string. Can be repeated up to 16 times, with up to 128 characters each.")
    private List<String> stops = List.of();

    @Option(
            names = "--token-healing",
            description =
                    "Allow prompts that end inside a token: the last tokens of the prompt are generated again, and"
                            + " count as new tokens.")
    private boolean tokenHealing;

    @Option(names = "--ignore-eos", description = "Do not stop at end-of-text tokens.")
    private boolean ignoreEos;

    @Option(
            names = "--ids",
            negatable = true,
            description = "Print token ids instead of text. Default: the form of the prompt.")
    private Boolean idsWanted;

    @Option(names = "--json", description = "Print one JSON object with ids and text at the end.")
    private boolean json;

    GenerateCommand() {
        this(StandardInput.ofProcess(), System::nanoTime);
    }

    GenerateCommand(StandardInput input, LongSupplier nanoTime) {
        this.input = input;
        this.nanoTime = nanoTime;
    }

    @Override
    public Integer call() {
        if (maxTokens < 1) {
            throw wrong("--max-tokens: expected at least 1, got " + maxTokens);
        }
        SamplingParams sampling = sampling();
        name = DefaultModel.of(name, Path.of(""), spec.commandLine().getErr());
        TunedModel tuned = models.find(name);
        Path model = tuned.model();
        try (ModelFiles files = ModelFiles.open(model)) {
            PrintWriter out = spec.commandLine().getOut();
            GeneratedText.Display shown = json
                    ? GeneratedText.Display.NOTHING
                    : showsIds() ? GeneratedText.Display.IDS : GeneratedText.Display.TEXT;
            Set<Integer> stopIds = new TreeSet<>(files.eosTokenIds());
            Optional<Tokenizer> tokenizer = tokenizer(model);
            HealedPrompt prompt =
                    tokenizer.map(t -> prompt(t, model, stopIds)).orElseGet(() -> HealedPrompt.asIs(source.ids));
            if (ignoreEos) {
                stopIds.clear();
            }
            GeneratedText generated = tokenizer
                    .map(t -> new GeneratedText(shown, out, stopIds, new Continuation(t, prompt, stops)))
                    .orElseGet(() -> new GeneratedText(shown, out, stopIds));
            generate(tuned, files, prompt, sampling, generated);
        }
        return 0;
    }

    private void generate(
            TunedModel tuned, ModelFiles files, HealedPrompt healed, SamplingParams sampling, GeneratedText generated) {
        int[] prompt = healed.ids();
        try (DeviceFlags.Opened opened = flags.open();
                Scope weights = new Scope(opened.device())) {
            Model loaded = tuned.load(files, weights, flags.precision());
            long room = (long) prompt.length + maxTokens;
            if (room > loaded.info().contextLength()) {
                throw wrong(prompt.length + " prompt tokens and " + maxTokens
                        + " new tokens exceed the context length of the model, "
                        + loaded.info().contextLength());
            }
            for (int id : prompt) {
                if (id < 0 || id >= loaded.info().vocabSize()) {
                    throw wrong("--prompt-ids: token " + id + " is outside the vocabulary, size "
                            + loaded.info().vocabSize());
                }
            }
            Sampler sampler = new Sampler(sampling, loaded.info().vocabSize(), prompt);
            try (Generator generator =
                    new Generator(loaded, opened.device(), flags.precision(), flags.fallback(), (int) room)) {
                long started = nanoTime.getAsLong();
                generator.generate(prompt, healed::allowed, sampler, maxTokens, generated);
                double seconds = (nanoTime.getAsLong() - started) / 1e9;
                generated.finish();
                if (json) {
                    ReportOutput.json(spec.commandLine().getOut(), describe(files, opened, prompt, generated, seconds));
                }
            }
        }
    }

    private SamplingParams sampling() {
        boolean draws = List.of("--top-k", "--top-p", "--min-p", "--typical", "--seed").stream()
                .anyMatch(spec.commandLine().getParseResult()::hasMatchedOption);
        try {
            new StopStrings(stops);
            return new SamplingParams(
                    temperature != null ? temperature : draws ? 1 : 0,
                    topK,
                    topP,
                    minP,
                    typicalP,
                    repetitionPenalty,
                    presencePenalty,
                    frequencyPenalty,
                    seed);
        } catch (GenerationException failure) {
            throw wrong(failure.violations().stream()
                    .map(wrong ->
                            new Violation("--" + wrong.field().replace('_', '-'), wrong.constraint(), wrong.value()))
                    .map(Violation::toString)
                    .collect(Collectors.joining("; ")));
        }
    }

    private ParameterException wrong(String message) {
        return new ParameterException(spec.commandLine(), message);
    }

    private boolean showsIds() {
        return idsWanted != null ? idsWanted : source.ids != null;
    }

    /** The tokenizer, if the options need one. Token ids as input and output work without a tokenizer. */
    private Optional<Tokenizer> tokenizer(Path model) {
        if (source.ids == null) {
            return Optional.of(Tokenizers.require(model, "a prompt of text"));
        }
        if (!stops.isEmpty() || tokenHealing) {
            return Optional.of(Tokenizers.require(model, tokenHealing ? "--token-healing" : "--stop"));
        }
        if (json) {
            return Tokenizers.find(model);
        }
        return showsIds() ? Optional.empty() : Optional.of(Tokenizers.require(model, "--no-ids"));
    }

    /** The prompt as token ids; fill-in-the-middle adds stop ids. */
    private HealedPrompt prompt(Tokenizer tokenizer, Path model, Set<Integer> stopIds) {
        if (source.ids != null) {
            return healed(tokenizer, source.ids);
        }
        if (source.fim != null) {
            if (source.fim.length != 2) {
                throw wrong("--fim: expected PREFIX and SUFFIX, got " + source.fim.length + " values");
            }
            FillInMiddle middle = FillInMiddle.of(tokenizer, model);
            stopIds.addAll(middle.ends());
            return middle.prompt(source.fim[0], source.fim[1], tokenHealing);
        }
        int[] ids = tokenizer.encode(text(), true);
        if (ids.length == 0) {
            throw wrong("the prompt is empty, and the tokenizer adds no start token");
        }
        return healed(tokenizer, ids);
    }

    private HealedPrompt healed(Tokenizer tokenizer, int... ids) {
        return tokenHealing ? tokenizer.heal(ids) : HealedPrompt.asIs(ids);
    }

    private String text() {
        if (source.text != null && !source.text.equals("-")) {
            return source.text;
        }
        if (source.text == null && input.terminal()) {
            throw wrong("missing prompt: pass --prompt, --prompt-ids or --fim, or pipe it to standard input");
        }
        try {
            return input.text();
        } catch (IOException failure) {
            throw wrong(String.valueOf(failure.getMessage()));
        }
    }

    private ObjectNode describe(
            ModelFiles files, DeviceFlags.Opened opened, int[] prompt, GeneratedText generated, double seconds) {
        ObjectNode root = Jackson.object();
        root.put("model", name);
        root.put("architecture", files.architecture());
        root.put("device", opened.device().name());
        root.put("device_reason", opened.selection().reason());
        ArrayNode given = root.putArray("prompt_ids");
        for (int id : prompt) {
            given.add(id);
        }
        ArrayNode made = root.putArray("ids");
        generated.ids().forEach(made::add);
        root.put("text", generated.text().orElse(null));
        root.put("stop_reason", generated.reason().name());
        root.put("stop_sequence", generated.stopSequence().orElse(null));
        root.put("seconds", seconds);
        root.put("tokens_per_second", generated.ids().size() / seconds);
        return root;
    }
}
