package dev.starforge.cli.command;

import dev.starforge.cli.bundle.Bundle;
import dev.starforge.cli.bundle.RuntimeImage;
import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.OutputPath;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.report.ShellQuoting;
import dev.starforge.train.TrainException;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "bundle",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Package the program for machines without Java.",
            "",
            "Writes an archive with launchers, jars, kernels, a Java runtime and, with --model, a model. It runs"
                    + " without network access; its SHA256SUMS file has the hash of each file. --jdk packages for another"
                    + " operating system or architecture.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge bundle --out starforge.tar.gz",
            "  starforge bundle --model TUNED.gguf --out tuned.tar.gz",
            "  tar xzf tuned.tar.gz && starforge/starforge serve starforge/models/TUNED.gguf",
            "  starforge bundle --jdk jdk-25-windows --out windows.tar.gz",
        })
final class BundleCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(names = "--model", paramLabel = "MODEL", description = "Model to include: a folder, a GGUF file or a name.")
    private String model;

    @Option(
            names = "--out",
            paramLabel = "FILE",
            description = "New .tar.gz file. Default: starforge-SYSTEM-ARCH.tar.gz.")
    private Path out;

    @Option(
            names = "--jdk",
            paramLabel = "DIR",
            description = "JDK 25 to link the runtime from, possibly of another system.")
    private Path jdk;

    @Option(
            names = "--no-runtime",
            description = "Omit the Java runtime. The target machine needs JDK 25 and JAVA_HOME.")
    private boolean bare;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        if (bare && jdk != null) {
            throw new ParameterException(spec.commandLine(), "--no-runtime and --jdk cannot be combined");
        }
        if (out == null) {
            out = Path.of("starforge-" + word("os.name") + "-" + word("os.arch") + ".tar.gz");
        }
        if (!out.toString().endsWith(".tar.gz")) {
            throw new ParameterException(spec.commandLine(), "--out " + out + ": expected a .tar.gz file");
        }
        OutputPath.require("--out", out, spec.commandLine());
        Path home = home();
        Optional<Path> packed = Optional.ofNullable(model).map(BundleCommand::packed);
        Path temporary = Files.createTempDirectory("starforge-bundle");
        try (ShutdownCleanup _ =
                ShutdownCleanup.removing(out, spec.commandLine().getErr())) {
            Optional<Path> runtime = bare ? Optional.empty() : Optional.of(runtime(home, temporary.resolve("runtime")));
            int files = new Bundle(home, runtime, packed).write(out);
            ObjectNode report = Jackson.object();
            report.put("out", out.toString()).put("files", files).put("bytes", Files.size(out));
            report.put("sha256", Hashes.sha256(out)).put("runtime", !bare);
            packed.ifPresent(path -> report.put("model", "starforge/models/" + path.getFileName()));
            report.put("next", "tar xzf " + ShellQuoting.quoted(out) + " && starforge/starforge selftest");
            ReportOutput.print(spec.commandLine().getOut(), report, json);
        } finally {
            ShutdownCleanup.remove(temporary);
        }
        return ExitCode.DONE;
    }

    private static String word(String property) {
        return System.getProperty(property).toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]+", "");
    }

    private Path runtime(Path home, Path linked) throws IOException {
        Optional<Path> own = RuntimeImage.own(home);
        if (jdk == null && own.isPresent()) {
            return own.get();
        }
        try {
            return RuntimeImage.link(
                    home.resolve("lib"),
                    Optional.ofNullable(jdk),
                    Optional.ofNullable(System.getenv("JAVA_HOME")).map(Path::of),
                    linked);
        } catch (RuntimeImage.MissingException missing) {
            throw new TrainException("bundle: " + missing.getMessage(), missing);
        }
    }

    private static Path packed(String name) {
        TunedModel tuned =
                TunedModel.of(ModelLocator.find(name, ModelFlags.WANTED), Optional.empty(), ModelFlags::base);
        if (tuned.adapter().isPresent()) {
            throw new TrainException(
                    name + " is an adapter; run `starforge merge " + name + " --out MERGED` first and pass MERGED");
        }
        return tuned.model().toAbsolutePath().normalize();
    }

    /** The folder of the program that runs: the parent of its jars. */
    private static Path home() {
        try {
            URI jar = RootCommand.class
                    .getProtectionDomain()
                    .getCodeSource()
                    .getLocation()
                    .toURI();
            Path home = Path.of(jar).resolve("../..").toAbsolutePath().normalize();
            if (!Files.isRegularFile(home.resolve("starforge")) || !Files.isDirectory(home.resolve("lib"))) {
                throw new TrainException(
                        "bundle: " + jar + " is not part of an installation; start the program with ./starforge");
            }
            return home;
        } catch (URISyntaxException wrong) {
            throw new IllegalStateException(wrong);
        }
    }
}
