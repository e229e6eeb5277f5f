package dev.starforge.cli;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.JsonDocuments;
import dev.starforge.data.Split;
import dev.starforge.data.Tokenizer;
import dev.starforge.data.dataset.ConfigFile;
import dev.starforge.data.dataset.DatasetBuilder;
import dev.starforge.data.dataset.DatasetConfig;
import dev.starforge.data.dataset.DatasetReport;
import dev.starforge.data.dataset.Preview;
import dev.starforge.data.dataset.TokenizerChoice;
import dev.starforge.train.ChatTemplates;
import java.io.Console;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.LongSupplier;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;
import tools.jackson.databind.node.ObjectNode;

/** Its flags are not annotations; {@link Main} says why. */
final class DatasetVerb implements Callable<Integer> {
    private static final String[] DESCRIPTION = {
        "Turns the history of a git repository into samples to train and test a model on.",
        "",
        "Reads git objects only; nothing of the repository is run or checked out. The oldest commits train, the newest "
                + "test; duplicates go first, and nothing that is tested is trained on. Secrets, mail addresses and "
                + "names are replaced. DIR then has",
        "",
        "  report.html                  what came of it, with samples: look here first",
        "  train.shard val.shard test.shard",
        "                               tokens, for starforge train",
        "  commits.jsonl                every commit with its real difference",
        "  chunks.jsonl                 every changed function, with its split or why it has none",
        "  files.jsonl                  every file, kept or why not",
        "  manifest.json                settings, counts and hashes",
        "",
        "If DIR holds a dataset already, newer commits are added to it as a generation of their own, and nothing of the "
                + "older ones moves.",
        "",
    };

    private static final String[] FOOTER = {
        "  samples.context_length=4096  tokens of a document at most (2048)",
        "  filters.exclude=docs/**,*.sql",
        "                               paths to leave out; filters.include: to take only",
        "  splits.test=10               shares of commits (train 85, validation 10, test 5)",
        "  samples.order=dependency     files after those they use, not by lot",
        "  redact.people=false          leaves names and addresses in commit metadata",
        "  export=both                  also as JSON for other programs",
        "",
        "Examples:",
        "  starforge dataset --repo . --out data",
        "  starforge dataset --repo . --out data --tokenizer MODEL --config dataset.yaml",
        "  starforge dataset --repo . --out data --set samples.context_length=4096",
        "  starforge dataset --out data --preview 3 --split test",
        "",
        "Ends with 0 when done or up to date, with 2 for flags it does not know, and with 1 for everything else that goes "
                + "wrong: a sentence says what, and DIR is as it was.",
    };

    private static final String TRAIN = "train:";

    private final LongSupplier nanoTime = System::nanoTime;
    private final CommandSpec spec = Main.command("dataset", this);

    private long began;
    private Path repository;
    private Path out;
    private String tokenizer;

    private DatasetVerb() {
        spec.usageMessage()
                .sortOptions(false)
                .description(DESCRIPTION)
                .footerHeading("%nSettings worth knowing, with --set or in a file; docs/dataset.md has all:%n")
                .footer(FOOTER);
        for (OptionSpec.Builder flag : List.of(
                flag("--repo", "PATH", Path.class, "A work tree or a bare repository."),
                flag("--out", "DIR", Path.class, "Where the dataset is or will be.")
                        .required(true),
                flag("--config", "FILE", Path.class, "Settings in YAML; docs/dataset.md lists them."),
                flag("--set", "KEY=VALUE", Map.class, "One setting; wins over the file.")
                        .initialValue(Map.of()),
                flag("--rev", "REV", String.class, "The newest commit to read. Default: HEAD.")
                        .defaultValue("HEAD"),
                flag("--since", "REV", String.class, "Leave out what this commit contains.")
                        .defaultValue(""),
                flag(
                                "--tokenizer",
                                "FILE|train:N",
                                String.class,
                                "A tokenizer.json, a model folder or a .gguf file; or train one of N tokens on the training "
                                        + "split. Default: ${DEFAULT-VALUE}.")
                        .defaultValue("train:8192"),
                flag(
                        "--licenses",
                        "any|permissive",
                        String.class,
                        "permissive leaves out files that no permissive licence covers. Default: any."),
                flag("--threads", "N", Integer.class, "Default: all cores. The result is the same."),
                flag(
                                "--preview",
                                "N",
                                Integer.class,
                                "Show N samples of the dataset in DIR, coloured by what counts in the loss. Default: 5. DIR "
                                        + "may be a .jsonl file, with the model that reads it as --tokenizer.")
                        .arity("0..1")
                        .fallbackValue("5"),
                flag("--split", "train|val|test", String.class, "Which split --preview shows. Default: train.")
                        .defaultValue("train"),
                flag("--json", "", boolean.class, "For machines.").defaultValue("false"))) {
            spec.addOption(flag.build());
        }
    }

    private static OptionSpec.Builder flag(String name, String label, Class<?> type, String description) {
        return OptionSpec.builder(name).paramLabel(label).type(type).description(description);
    }

    /** The verb as a command. */
    static CommandSpec command() {
        return new DatasetVerb().spec;
    }

    private <T> T given(String flag) {
        return spec.findOption(flag).getValue();
    }

    @Override
    public Integer call() throws IOException {
        repository = given("--repo");
        out = given("--out");
        tokenizer = given("--tokenizer");
        Integer preview = given("--preview");
        if (preview != null) {
            preview(preview, given("--split"));
            return 0;
        }
        if (repository == null) {
            throw new ParameterException(spec.commandLine(), "Missing required option: '--repo=PATH'");
        }
        DatasetConfig effective = effective();
        TokenizerChoice choice = choice();
        ProgressBar progress = new ProgressBar(spec.commandLine().getErr(), terminal(), nanoTime);
        began = nanoTime.getAsLong();
        DatasetReport report;
        try {
            report = new DatasetBuilder(
                            effective,
                            choice,
                            GrammarProcess.starter(DatasetBuilder.parserFolder(out)),
                            progress,
                            nanoTime)
                    .build();
        } finally {
            progress.finish();
        }
        double seconds = sinceBeginning();
        PrintWriter print = spec.commandLine().getOut();
        if (this.<Boolean>given("--json")) {
            Json.print(print, describe(report, seconds));
        } else {
            summary(print, report, seconds);
        }
        return 0;
    }

    private DatasetConfig effective() {
        ConfigFile file = new ConfigFile();
        Path config = given("--config");
        Map<String, String> settings = given("--set");
        String licenses = given("--licenses");
        Integer threads = given("--threads");
        if (config != null) {
            file.read(config);
        }
        try {
            settings.forEach(file::set);
            if (licenses != null) {
                file.set("filters.licenses", licenses);
            }
            if (threads != null) {
                file.set("threads", threads.toString());
            }
        } catch (IllegalArgumentException wrong) {
            throw new ParameterException(spec.commandLine(), "--set: " + wrong.getMessage(), wrong);
        }
        return file.config(repository, out, given("--rev"), given("--since"));
    }

    private TokenizerChoice choice() {
        if (tokenizer.startsWith(TRAIN)) {
            try {
                return new TokenizerChoice.Trained(Integer.parseInt(tokenizer.substring(TRAIN.length())));
            } catch (NumberFormatException notOne) {
                throw new ParameterException(
                        spec.commandLine(), "--tokenizer: expected train:N with a number, got " + tokenizer, notOne);
            } catch (IllegalArgumentException tooFew) {
                throw new ParameterException(spec.commandLine(), "--tokenizer: " + tooFew.getMessage(), tooFew);
            }
        }
        Path path = Path.of(tokenizer);
        if (!Files.exists(path)) {
            throw new DatasetException(path, "there is no such tokenizer; train:N makes one");
        }
        if (path.toString().endsWith(".json")) {
            return new TokenizerChoice.Given(path, Tokenizer.read(path));
        }
        Path file = Files.isDirectory(path) ? path.resolve("tokenizer.json") : path;
        return new TokenizerChoice.Given(
                file,
                Tokenizers.find(path)
                        .orElseThrow(
                                () -> new DatasetException(file, "there is no tokenizer here; train:N makes one")));
    }

    private void preview(int count, String split) {
        Split shown = List.of(Split.values()).stream()
                .filter(each -> each.label().equals(split))
                .findFirst()
                .orElseThrow(() -> new ParameterException(
                        spec.commandLine(), "--split: expected train, val or test, got " + split));
        if (out.toString().endsWith(".jsonl")) {
            Path model = Path.of(tokenizer);
            Tokenizer reader = choice() instanceof TokenizerChoice.Given given ? given.tokenizer() : null;
            if (reader == null) {
                throw new DatasetException(out, "is text, which needs a model's tokenizer; give --tokenizer");
            }
            Preview.print(
                    spec.commandLine().getOut(),
                    JsonDocuments.lines(out, reader, () -> ChatTemplates.require(model, reader)),
                    reader,
                    count,
                    terminal());
            return;
        }
        try (Dataset dataset = Dataset.open(out)) {
            Path own = out.resolve("tokenizer.json");
            Tokenizer reader = Files.exists(own) && tokenizer.startsWith(TRAIN)
                    ? Tokenizer.read(own)
                    : choice() instanceof TokenizerChoice.Given given ? given.tokenizer() : null;
            if (reader == null) {
                throw new DatasetException(out, "has no tokenizer of its own; give --tokenizer");
            }
            Preview.print(spec.commandLine().getOut(), dataset, reader, shown, count, terminal());
        }
    }

    private static boolean terminal() {
        Console console = System.console();
        return console != null && console.isTerminal();
    }

    /** The most that the heap held, summed over its parts. */
    private static long peakHeap() {
        return ManagementFactory.getMemoryPoolMXBeans().stream()
                .filter(pool -> pool.getType() == MemoryType.HEAP)
                .map(MemoryPoolMXBean::getPeakUsage)
                .mapToLong(usage -> usage.getUsed())
                .sum();
    }

    private ObjectNode describe(DatasetReport report, double seconds) {
        ObjectNode root = Json.object();
        root.put("out", out.toString()).put("generation", report.generation()).put("commits", report.commits());
        root.put("files", report.files()).put("files_kept", report.filesKept());
        root.put("chunks", report.chunks()).put("chunks_kept", report.chunksKept());
        root.put("family", report.family()).put("parsed", report.parsed()).put("guessed", report.guessed());
        ObjectNode splits = root.putObject("splits");
        report.splits()
                .forEach((each, count) -> splits.putObject(each.label())
                        .put("documents", count.documents())
                        .put("tokens", count.tokens())
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
            print.println(out + ": up to date, no new commits");
            print.flush();
            return;
        }
        print.printf(
                Locale.ROOT,
                "%s: generation %d, %d commits, %d of %d files, %d of %d chunks, %.1f s%n",
                out,
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
                        "  %-6s %,d tokens in %,d documents of %,d commits%n",
                        each.label(),
                        count.tokens(),
                        count.documents(),
                        count.commits()));
        print.println("Dropped:");
        report.dropped().forEach((reason, count) -> print.printf(Locale.ROOT, "  %-24s %,d%n", reason, count));
        print.printf(
                Locale.ROOT,
                "Leakage: none; %d training texts dropped, %d tombstones. Replaced: %d keys, %d passwords, %d e-mails (masked in the report).%n",
                report.leakingDropped(),
                report.tombstones(),
                report.redacted().keys(),
                report.redacted().passwords(),
                report.redacted().emails());
        print.println("Samples for " + report.family() + "; see " + out.resolve("report.html"));
        print.flush();
    }
}
