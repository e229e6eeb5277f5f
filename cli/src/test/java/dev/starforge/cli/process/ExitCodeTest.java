package dev.starforge.cli.process;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.command.RootCommand;
import dev.starforge.cli.serve.ServerProcess;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The same kind of error ends every command in the same way, with a sentence and without anything left behind. */
final class ExitCodeTest {
    private static final Path MODELS = Path.of("..", "golden", "models");
    private static final String MODEL = MODELS.resolve("llama2").toString();

    @TempDir
    Path folder;

    private Path broken;
    private Path config;

    @BeforeEach
    void makeFiles() throws IOException {
        broken = Files.createDirectory(folder.resolve("broken"));
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json", "adapter_config.json")) {
            Files.writeString(broken.resolve(name), "{\"model_type\": ");
        }
        config = Files.writeString(folder.resolve("unknown.yaml"), "seed: 1\nno_such_section:\n  no_such_key: 1\n");
    }

    private List<String> before() throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.map(Path::toString).sorted().toList();
        }
    }

    private String expect(int code, String... args) throws IOException {
        List<String> before = before();
        StringWriter err = new StringWriter();
        int actual = RootCommand.commandLine()
                .setOut(new PrintWriter(new StringWriter()))
                .setErr(new PrintWriter(err))
                .execute(args);
        assertThat(actual).as(String.join(" ", args) + ": " + err).isEqualTo(code);
        assertThat(err.toString()).isNotBlank().doesNotContain("\tat ").doesNotContainPattern("[a-z]Exception\\b");
        assertThat(before()).as("what is left").isEqualTo(before);
        return err.toString();
    }

    private String out(String name) {
        return folder.resolve(name).toString();
    }

    @Test
    void whatIsMissing() throws IOException {
        String none = folder.resolve("none").toString();
        expect(ExitCode.FAILED, "bench", none);
        expect(ExitCode.FAILED, "dataset", "--repo", none, "--out", out("a"));
        expect(ExitCode.FAILED, "dataset", "--out", none, "--preview");
        expect(ExitCode.FAILED, "eval", "--set", "model.pretrained_model=" + none);
        expect(ExitCode.FAILED, "export", none, "--out", out("a.gguf"));
        expect(ExitCode.FAILED, "generate", none, "--prompt", "x");
        expect(ExitCode.FAILED, "generate", MODEL, "--adapter", none, "--prompt-ids", "1");
        expect(ExitCode.FAILED, "inspect", none);
        expect(ExitCode.FAILED, "logits", none, "--ids", "1", "--out", out("a"));
        expect(ExitCode.FAILED, "merge", none, "--out", out("a"));
        expect(ExitCode.FAILED, "merge", MODEL + "/adapter", "--base", none, "--out", out("a"));
        expect(ExitCode.FAILED, "verify", none);
    }

    @Test
    void whatIsBroken() throws IOException {
        expect(ExitCode.FAILED, "bench", broken.toString());
        expect(ExitCode.FAILED, "dataset", "--repo", broken.toString(), "--out", out("a"));
        expect(ExitCode.FAILED, "eval", "--set", "model.pretrained_model=" + broken);
        expect(ExitCode.FAILED, "export", broken.toString(), "--out", out("a.gguf"));
        expect(ExitCode.FAILED, "generate", broken.toString(), "--prompt", "x");
        expect(ExitCode.FAILED, "generate", MODEL, "--adapter", broken.toString(), "--prompt-ids", "1");
        expect(ExitCode.FAILED, "inspect", broken.toString());
        expect(ExitCode.FAILED, "logits", broken.toString(), "--ids", "1", "--out", out("a"));
        expect(ExitCode.FAILED, "merge", broken.toString(), "--base", MODEL, "--out", out("a"));
        expect(ExitCode.FAILED, "verify", broken.toString());
        Path file = Files.writeString(folder.resolve("not.gguf"), "GGUF?");
        expect(ExitCode.FAILED, "generate", file.toString(), "--prompt", "x");
        expect(ExitCode.FAILED, "merge", MODEL + "/adapter", "--base", file.toString(), "--out", out("a.gguf"));
    }

    @Test
    void whatIsNestedTooDeeply() throws IOException {
        String deep = "{\"model_type\": " + "[".repeat(200_000);
        for (String name : List.of("config.json", "generation_config.json", "tokenizer.json", "model.safetensors")) {
            Path copy = Files.createDirectory(folder.resolve("deep-" + name));
            for (String file : List.of("config.json", "tokenizer.json", "model.safetensors")) {
                Files.copy(MODELS.resolve("starcoder2").resolve(file), copy.resolve(file));
            }
            ByteBuffer header = ByteBuffer.allocate(8 + deep.length()).order(ByteOrder.LITTLE_ENDIAN);
            header.putLong(deep.length()).put(deep.getBytes(StandardCharsets.UTF_8));
            Files.write(
                    copy.resolve(name),
                    name.endsWith(".safetensors") ? header.array() : deep.getBytes(StandardCharsets.UTF_8));
            expect(ExitCode.FAILED, "generate", copy.toString(), "--prompt", "x");
        }
        Path adapter = Files.createDirectory(folder.resolve("deep-adapter"));
        Files.writeString(adapter.resolve("adapter_config.json"), deep);
        expect(ExitCode.FAILED, "generate", MODEL, "--adapter", adapter.toString(), "--prompt-ids", "1");
        expect(ExitCode.FAILED, "merge", adapter.toString(), "--base", MODEL, "--out", out("a"));
        Path dataset = Files.createDirectory(folder.resolve("deep-dataset"));
        Files.writeString(dataset.resolve("manifest.json"), deep);
        expect(ExitCode.FAILED, "dataset", "--out", dataset.toString(), "--preview");
        Path settings = Files.writeString(folder.resolve("deep.yaml"), "a: " + "[".repeat(200_000));
        for (String command : List.of("doctor", "eval", "train")) {
            StringWriter out = new StringWriter();
            int code = RootCommand.commandLine()
                    .setOut(new PrintWriter(out))
                    .setErr(new PrintWriter(out))
                    .execute(command, "--config", settings.toString());
            assertThat(code).isEqualTo(ExitCode.WRONG_USE);
            assertThat(out.toString()).contains("deep.yaml:1: is not YAML: expected at most 64 levels of nesting");
        }
    }

    @Test
    void whatNoFlagIs() throws IOException {
        for (String command : RootCommand.commandLine().getSubcommands().keySet()) {
            expect(ExitCode.WRONG_USE, command, "--no-such-flag");
        }
        expect(ExitCode.WRONG_USE, "no-such-command");
        expect(ExitCode.WRONG_USE);
    }

    @Test
    void whatNoSettingIs() throws IOException {
        for (String command : List.of("eval", "train")) {
            expect(ExitCode.WRONG_USE, command, "--config", config.toString());
            expect(ExitCode.WRONG_USE, command, "--config", out("none.yaml"));
            expect(ExitCode.WRONG_USE, command, "--set", "training.sed=1");
        }
        String repository = Path.of("..").toString();
        expect(ExitCode.WRONG_USE, "dataset", "--repo", repository, "--out", out("a"), "--config", config.toString());
        expect(ExitCode.WRONG_USE, "dataset", "--repo", repository, "--out", out("a"), "--config", out("none.yaml"));
        expect(ExitCode.WRONG_USE, "dataset", "--repo", repository, "--out", out("a"), "--set", "sed=1");
    }

    @Test
    void whatIsThereAlreadyIsNotWrittenOver() throws IOException {
        String there = Files.writeString(folder.resolve("there.gguf"), "mine").toString();
        expect(ExitCode.WRONG_USE, "export", MODEL, "--out", there);
        expect(ExitCode.WRONG_USE, "logits", MODEL, "--ids", "1", "--out", there);
        expect(ExitCode.WRONG_USE, "merge", MODEL + "/adapter", "--base", MODEL, "--out", there);
        assertThat(Files.readString(folder.resolve("there.gguf"))).isEqualTo("mine");
    }

    @Test
    void noFolderIsMadeByTheWay() throws IOException {
        String nested = folder.resolve("new").resolve("newer.gguf").toString();
        expect(ExitCode.WRONG_USE, "export", MODEL, "--out", nested);
        expect(ExitCode.WRONG_USE, "logits", MODEL, "--ids", "1", "--out", nested);
        expect(ExitCode.WRONG_USE, "merge", MODEL + "/adapter", "--base", MODEL, "--out", nested);
        expect(ExitCode.WRONG_USE, "merge", MODEL + "/adapter", "--base", MODEL, "--gguf-adapter", nested);
        expect(ExitCode.FAILED, "verify", broken.toString(), "--dump", nested);
    }

    @Test
    void aWorkerSaysWhoShouldStartItAgain() throws IOException {
        String[] worker = {"worker", "--worker-id", "w", "--model", MODEL, "--port", "0", "--no-callback"};
        expect(ExitCode.WRONG_USE, with(worker, "--cuda-device", "0", "--device", "cpu"));
        expect(ExitCode.WRONG_USE, with(worker, "--cuda-device", "0", "--metal-device", "0"));
        expect(ExitCode.WRONG_USE, with(worker, "--host", "0.0.0.0"));
        expect(ServerProcess.MODEL_REFUSED, with(worker, "--adapter", "a=" + MODEL));
        expect(ServerProcess.MODEL_REFUSED, with(worker, "--adapter", "a=" + broken));
        expect(
                ServerProcess.CALLBACK_FAILED,
                "worker",
                "--worker-id",
                "w",
                "--model",
                MODEL,
                "--port",
                "0",
                "--device",
                "cpu",
                "--callback-url",
                "http://127.0.0.1:1/");
    }

    @Test
    void aTemplateThatCannotBeParsedIsNotTriedAgain() throws IOException {
        String template = "{% if messages %}no end";
        Path alone = Files.writeString(folder.resolve("bad.jinja"), template);
        String[] worker = {"worker", "--worker-id", "w", "--port", "0", "--device", "cpu", "--no-callback"};
        assertThat(expect(
                        ServerProcess.MODEL_REFUSED,
                        with(worker, "--model", MODEL, "--chat-template", alone.toString())))
                .contains("bad.jinja: chat template: line 1");
        Path copy = Files.createDirectory(folder.resolve("copy"));
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json")) {
            Files.copy(Path.of(MODEL, name), copy.resolve(name));
        }
        Files.writeString(copy.resolve("chat_template.jinja"), template);
        assertThat(expect(ServerProcess.MODEL_REFUSED, with(worker, "--model", copy.toString())))
                .contains("chat_template.jinja: chat template: line 1");
    }

    @Test
    void aPortInUseNamesTheOption() throws IOException {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            String port = Integer.toString(taken.getLocalPort());
            String[] worker = {"worker", "--worker-id", "w", "--model", MODEL, "--device", "cpu", "--no-callback"};
            String inUse = "127.0.0.1:" + port + ": the port is in use; choose another with --";
            assertThat(expect(ExitCode.FAILED, with(worker, "--port", port))).contains(inUse + "port");
            assertThat(expect(ExitCode.FAILED, "serve", MODEL, "--device", "cpu", "--port", port))
                    .contains(inUse + "port");
            Files.createDirectories(folder.resolve("state"));
            Path pool = Files.writeString(folder.resolve("pool.yaml"), "pool: {state: state}\n");
            StringWriter err = new StringWriter();
            int code = RootCommand.commandLine()
                    .setErr(new PrintWriter(err))
                    .execute("pool", "--config", pool.toString(), "--listen", "127.0.0.1:" + port);
            assertThat(code).isEqualTo(ExitCode.FAILED);
            assertThat(err.toString()).contains(inUse + "listen HOST:PORT");
        }
    }

    private static String[] with(String[] args, String... more) {
        return Stream.concat(Stream.of(args), Stream.of(more)).toArray(String[]::new);
    }

    @Test
    void pathsAreTakenAsTheyAreAndShownOnOneLine() throws IOException {
        Path odd = folder.resolve("two\nlines\u001b[31m");
        StringWriter err = new StringWriter();
        RootCommand.commandLine().setErr(new PrintWriter(err)).execute("inspect", odd.toString());
        assertThat(err.toString().lines()).hasSize(1);
        assertThat(err.toString()).contains("two\\nlines\\u001b[31m").doesNotContain("\u001b");
        Path copy = Files.createDirectory(odd);
        for (String name : List.of("config.json", "model.safetensors")) {
            Files.copy(Path.of(MODEL, name), copy.resolve(name));
        }
        assertThat(RootCommand.commandLine()
                        .setOut(new PrintWriter(new StringWriter()))
                        .execute("inspect", odd.toString()))
                .isZero();
    }
}
