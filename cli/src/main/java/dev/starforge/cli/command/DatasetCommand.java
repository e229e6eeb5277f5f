package dev.starforge.cli.command;

import dev.starforge.cli.model.DatasetTokenizer;
import dev.starforge.cli.options.ConfigFileFlags;
import dev.starforge.cli.output.DatasetProgress;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.process.GrammarProcess;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.JsonDocuments;
import dev.starforge.data.Split;
import dev.starforge.data.dataset.BuildProgress;
import dev.starforge.data.dataset.DatasetBuilder;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.SamplePreview;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.text.config.Key;
import dev.starforge.text.config.Yaml;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.text.ChatTemplates;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "dataset",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Turn the history of a git repository into a dataset.",
            "",
            "Reads git objects only; does not check out or execute code of the repository. The oldest commits become"
                    + " training data, the newest test data. Duplicates are removed, and training data does not overlap"
                    + " with validation and test data. Secrets, mail addresses and names are replaced.",
            "",
            "The dataset folder contains:",
            "",
            "  report.html          overview with samples",
            "  train.shard val.shard test.shard",
            "                       tokens, input of `starforge train`",
            "  commits.jsonl.gz     each commit with its diff",
            "  chunks.jsonl.gz      each changed function with its split or drop reason",
            "  files.jsonl          each file with its split or drop reason",
            "  manifest.json        settings, counts and hashes",
            "",
            "If the dataset already exists, new commits are added as a new generation; existing splits do not change.",
            "",
        },
        footerHeading = "%nFrequently used settings, for --set or the dataset section of --config:%n",
        footer = {
            "  samples.context_length=4096   maximum tokens per document",
            "  filters.exclude=docs/**,*.sql paths to exclude; filters.include selects paths",
            "  splits.test=10                share of test commits in percent (default: 5)",
            "  samples.order=dependency      order files by their dependencies",
            "  redact.people=false           keep names and addresses in commit metadata",
            "  export=both                   also write JSON for other programs",
            "",
            "Examples:",
            "  starforge dataset --repo . --out data",
            "  starforge dataset --repo . --out data --config train.yaml",
            "  starforge dataset --repo . --out data --tokenizer MODEL",
            "  starforge dataset --repo . --out data --set samples.context_length=4096",
            "  starforge dataset --out data --preview 3 --split test",
            "",
            "Exit codes: 0 done or up to date, 1 failed (the dataset is unchanged), 2 invalid options or settings, 130"
                    + " interrupted.",
        })
final class DatasetCommand implements Callable<Integer> {
    /** Time for a stage to stop after an interrupt, before its output is removed while it still runs. */
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    /** Progress that throws when the user interrupts the command. */
    private record Interruptible(BuildProgress progress, ShutdownCleanup interruption) implements BuildProgress {
        @Override
        public void begin(String stage, long total) {
            interruption.check();
            progress.begin(stage, total);
        }

        @Override
        public void advance() {
            interruption.check();
            progress.advance();
        }

        @Override
        public void message(String text) {
            progress.message(text);
        }
    }

    private final LongSupplier nanoTime = System::nanoTime;

    @Spec
    private CommandSpec spec;

    @Option(names = "--repo", paramLabel = "PATH", description = "Work tree or bare repository.")
    private Path repository;

    @Option(names = "--out", paramLabel = "DIR", description = "Dataset folder. Default: the setting data.path.")
    private Path out;

    @Option(
            names = "--base-dir",
            paramLabel = "DIR",
            description = "Without --repo: same as --repo. With --repo: same as --out DIR/dataset_enhanced --set"
                    + " dataset.export=both, which also writes training_data_enhanced_*.json and"
                    + " token_sequences.json for other programs.")
    private Path baseDir;

    @Mixin
    private ConfigFileFlags settings;

    @Option(
            names = "--rev",
            paramLabel = "REV",
            defaultValue = "HEAD",
            description = "Newest commit to read. Default: HEAD.")
    private String revision;

    @Option(
            names = "--since",
            paramLabel = "REV",
            defaultValue = "",
            description = "Exclude this commit and its ancestors.")
    private String since;

    @Option(
            names = "--tokenizer",
            paramLabel = "FILE|train:N",
            description =
                    "Tokenizer: a tokenizer.json, a model folder or a .gguf file; train:N trains one with N tokens on"
                            + " the training split. Default: the tokenizer of model.pretrained_model if it is on this"
                            + " machine, otherwise train:8192.")
    private String tokenizer;

    @Option(
            names = "--licenses",
            paramLabel = "any|permissive",
            description = "`permissive` excludes files without a permissive license. Default: any.")
    private String licenses;

    @Option(names = "--skip-missing", description = "Skip files that are missing in a partial clone. Default: fail.")
    private boolean skipMissing;

    @Option(
            names = "--threads",
            paramLabel = "N",
            description = "Number of threads. The result does not depend on it. Default: all cores.")
    private Integer threads;

    @Option(
            names = "--preview",
            paramLabel = "N",
            arity = "0..1",
            fallbackValue = "5",
            description =
                    "Print N samples of the dataset; colors mark the tokens in the loss. DIR can be a .jsonl file,"
                            + " with its tokenizer in --tokenizer. Default: 5.")
    private Integer preview;

    @Option(
            names = "--split",
            paramLabel = "train|val|test",
            defaultValue = "train",
            description = "Split for --preview. Default: train.")
    private String split;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    private long began;

    @Override
    public Integer call() throws IOException {
        boolean exports = baseDir != null && repository != null;
        if (exports && out != null) {
            throw new ParameterException(spec.commandLine(), "--base-dir with --repo, and --out cannot be combined");
        }
        out = exports ? baseDir.resolve("dataset_enhanced") : out;
        repository = repository == null ? baseDir : repository;
        RunConfig config = config(exports);
        if (out == null && config.get(Keys.DATASET).isEmpty()) {
            throw new ParameterException(spec.commandLine(), "Missing required option: '--out=DIR'");
        }
        out = out == null ? Path.of(config.get(Keys.DATASET)) : out;
        if (preview != null) {
            if (preview < 1) {
                throw new ParameterException(spec.commandLine(), "--preview: expected at least 1, got " + preview);
            }
            preview(config, preview, split);
            return 0;
        }
        if (repository == null) {
            throw new ParameterException(spec.commandLine(), "Missing required option: '--repo=PATH'");
        }
        DatasetConfig effective = new DatasetConfig(
                repository,
                out,
                revision,
                since,
                DatasetTokenizer.withLength(config, out).datasetSettings());
        DatasetTokenizer chosen = DatasetTokenizer.of(config, out);
        DatasetProgress progress = new DatasetProgress(spec.commandLine().getErr(), Terminal.isTerminal(), nanoTime);
        if (!chosen.note().isEmpty()) {
            progress.message(chosen.note());
        }
        began = nanoTime.getAsLong();
        DatasetReport report;
        List<Path> made = DatasetBuilder.missing(out);
        try (ShutdownCleanup interruption = ShutdownCleanup.watch(
                PATIENCE,
                () -> DatasetBuilder.discard(out, made),
                "interrupted; " + out + " is unchanged",
                spec.commandLine().getErr())) {
            report = new DatasetBuilder(
                            effective,
                            chosen.choice(),
                            GrammarProcess.starter(DatasetBuilder.parserFolder(out)),
                            new Interruptible(progress, interruption),
                            nanoTime)
                    .build();
            interruption.finished();
        } finally {
            progress.finish();
        }
        double seconds = sinceBeginning();
        PrintWriter print = spec.commandLine().getOut();
        if (json) {
            ReportOutput.json(print, describe(report, seconds));
        } else {
            summary(print, report, seconds);
        }
        return 0;
    }

    /** All settings; dataset settings do not need the dataset section. */
    private RunConfig config(boolean exports) {
        List<String> flags = new ArrayList<>();
        add(flags, DatasetKeys.LICENSES, licenses);
        add(flags, DatasetKeys.SKIP_MISSING, skipMissing ? "true" : null);
        add(flags, DatasetKeys.THREADS, threads == null ? null : threads.toString());
        add(flags, DatasetKeys.TOKENIZER, tokenizer == null ? null : Yaml.quoted(tokenizer));
        if (exports) {
            flags.add("dataset.export=both");
        }
        return settings.flags(settings.file(RunConfig.datasetDefaults()), flags);
    }

    private static void add(List<String> flags, Key<?> key, @Nullable String value) {
        if (value != null) {
            flags.add(key.path() + "=" + value);
        }
    }

    private void preview(RunConfig config, int count, String name) {
        Split shown = List.of(Split.values()).stream()
                .filter(each -> each.label().equals(name))
                .findFirst()
                .orElseThrow(() -> new ParameterException(
                        spec.commandLine(), "--split: expected train, val or test, got " + split));
        if (out.toString().endsWith(".jsonl")) {
            DatasetTokenizer chosen = DatasetTokenizer.of(config, out);
            if (!(chosen.choice() instanceof TokenizerChoice.ExistingTokenizer given)) {
                throw new DatasetException(
                        out, "--preview of a .jsonl file requires the tokenizer of a model; pass --tokenizer");
            }
            Tokenizer reader = given.tokenizer();
            Path model = chosen.model().orElseThrow();
            SamplePreview.print(
                    spec.commandLine().getOut(),
                    JsonDocuments.lines(out, reader, () -> ChatTemplates.require(model, reader)),
                    reader,
                    count,
                    Terminal.isTerminal());
            return;
        }
        try (Dataset dataset = Dataset.open(out)) {
            Tokenizer reader = reader(config, dataset.tokenizerHash());
            SamplePreview.print(spec.commandLine().getOut(), dataset, reader, shown, count, Terminal.isTerminal());
        }
    }

    /** The tokenizer of a dataset: the one in its folder, or the one it was created with. */
    private Tokenizer reader(RunConfig config, String hash) {
        return switch (DatasetTokenizer.of(config, out).choice()) {
            case TokenizerChoice.ExistingTokenizer given -> {
                if (!hash.isEmpty() && !hash.equals(Hashes.sha256(given.file()))) {
                    throw new DatasetException(
                            out,
                            "created with another tokenizer than " + given.file()
                                    + "; pass the right one with --tokenizer");
                }
                yield given.tokenizer();
            }
            case TokenizerChoice.TokenizerToTrain _ -> {
                Path own = out.resolve("tokenizer.json");
                if (!Files.exists(own)) {
                    throw new DatasetException(out, "no tokenizer in the dataset; pass --tokenizer");
                }
                yield Tokenizer.read(own);
            }
        };
    }

    /** Peak heap usage, summed over the memory pools. */
    private static long peakHeap() {
        return ManagementFactory.getMemoryPoolMXBeans().stream()
                .filter(pool -> pool.getType() == MemoryType.HEAP)
                .map(MemoryPoolMXBean::getPeakUsage)
                .mapToLong(usage -> usage.getUsed())
                .sum();
    }

    private ObjectNode describe(DatasetReport report, double seconds) {
        ObjectNode root = Jackson.object();
        root.put("out", out.toString()).put("generation", report.generation()).put("commits", report.commits());
        root.put("files", report.files()).put("files_kept", report.filesKept());
        root.put("chunks", report.chunks()).put("chunks_kept", report.chunksKept());
        root.put("family", report.family()).put("parsed", report.parsed()).put("guessed", report.guessed());
        ObjectNode splits = root.putObject("splits");
        report.splits()
                .forEach((each, count) -> splits.putObject(each.label())
                        .put("documents", count.documents())
                        .put("tokens", count.tokens())
                        .put("loss_tokens", count.lossTokens())
                        .put("commits", count.commits()));
        ObjectNode dropped = root.putObject("dropped");
        report.dropped().forEach(dropped::put);
        root.putObject("leakage")
                .put("shared_windows", 0)
                .put("dropped", report.leakingDropped())
                .put("boilerplate_windows", report.boilerplateWindows())
                .put("tombstones", report.tombstones());
        root.putObject("redactions")
                .put("keys", report.redacted().keys())
                .put("passwords", report.redacted().passwords())
                .put("emails", report.redacted().emails());
        ObjectNode licences = root.putObject("licenses");
        report.licences().forEach((path, licence) -> licences.put(path.isEmpty() ? "." : path, licence));
        ObjectNode stages = root.putObject("seconds");
        stages.put("start", rounded(ManagementFactory.getRuntimeMXBean().getUptime() / 1e3 - sinceBeginning()));
        report.seconds().forEach((stage, took) -> stages.put(stage, rounded(took)));
        double history =
                report.seconds().getOrDefault("history", 0.0) + report.seconds().getOrDefault("walk", 0.0);
        root.put("history_commits_per_second", history == 0 ? 0 : Math.round(report.commits() / history));
        root.put("total_seconds", rounded(seconds));
        return root.put("peak_heap_bytes", peakHeap());
    }

    private double sinceBeginning() {
        return (nanoTime.getAsLong() - began) / 1e9;
    }

    private static double rounded(double seconds) {
        return Math.round(seconds * 1000) / 1000.0;
    }

    private void summary(PrintWriter print, DatasetReport report, double seconds) {
        if (report.generation() < 0) {
            print.println(Escaped.of(out) + ": up to date, no new commits");
            print.flush();
            return;
        }
        print.printf(
                Locale.ROOT,
                "%s: generation %d, %d commits, %d of %d files, %d of %d chunks, %.1f s%n",
                Escaped.of(out),
                report.generation(),
                report.commits(),
                report.filesKept(),
                report.files(),
                report.chunksKept(),
                report.chunks(),
                seconds);
        report.splits()
                .forEach((each, count) -> print.printf(
                        Locale.ROOT,
                        "  %-6s %,d tokens (%,d in the loss) in %,d documents of %,d commits%n",
                        each.label(),
                        count.tokens(),
                        count.lossTokens(),
                        count.documents(),
                        count.commits()));
        if (report.guessed() > 0) {
            print.printf(
                    Locale.ROOT,
                    "The parser failed on %,d of %,d file versions; they were split by braces and indentation.%n",
                    report.guessed(),
                    report.guessed() + report.parsed());
        }
        if (Split.TRAIN.in(report.splits()).documents() == 0) {
            print.println("The training split is empty: everything was dropped, for the reasons below.");
        }
        print.println("Dropped:");
        report.dropped().forEach((reason, count) -> print.printf(Locale.ROOT, "  %-24s %,d%n", reason, count));
        print.printf(
                Locale.ROOT,
                "Leakage: none; %d training documents dropped, %d tombstones. Replaced: %d keys, %d passwords, %d"
                        + " e-mails (masked in the report).%n",
                report.leakingDropped(),
                report.tombstones(),
                report.redacted().keys(),
                report.redacted().passwords(),
                report.redacted().emails());
        print.println("Samples for " + report.family() + "; see " + Escaped.of(out.resolve("report.html")));
        print.flush();
    }
}
