package dev.starforge.serve;

import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.log.EventLog;
import java.io.Reader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Properties;

/**
 * {@code starforge worker} over the fake engine, as a process of its own, for tests that start workers. All but the model
 * is real; the model is a file that says how this one is to behave: {@code tokens}, {@code step_ms}, {@code load_ms}, {@code exit}, {@code callbacks},
 * {@code engine_dies_ms}.
 */
public final class StubWorker {
    private StubWorker() {}

    /** @param args as the pool gives them */
    public static void main(String[] args) throws Exception {
        List<String> given = List.of(args);
        Properties model = new Properties();
        try (Reader in = Files.newBufferedReader(Path.of(value(given, "--model")))) {
            model.load(in);
        }
        if (model.containsKey("exit")) {
            Runtime.getRuntime().halt(number(model, "exit", 0));
        }
        String id = value(given, "--worker-id");
        String name = value(given, "--served-model-name");
        WorkerOptions options = WorkerOptions.local(id, name, 0);
        if (given.contains("--api-key-file")) {
            options = options.withKeys(Files.readAllLines(Path.of(value(given, "--api-key-file"))));
        }
        if (given.contains("--start-secret-stdin")) {
            options = options.withStartSecret(new String(System.in.readAllBytes(), StandardCharsets.US_ASCII).strip());
        }
        try (Worker worker = Worker.start(options, EventLog.silent(), Clock.systemUTC(), new SecureRandom());
                FakeEngine engine = new FakeEngine(name, true, ToolFormat.NONE)) {
            Thread.sleep(number(model, "load_ms", 0));
            engine.reply(" a".repeat(number(model, "tokens", 8))).step(Duration.ofMillis(number(model, "step_ms", 0)));
            worker.open(engine);
            callBack(given, options, worker, number(model, "callbacks", 1));
            if (model.containsKey("engine_dies_ms")) {
                Thread.sleep(number(model, "engine_dies_ms", 0));
                engine.die(false);
            }
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                worker.drain();
                Runtime.getRuntime().halt(0);
            }));
            worker.await();
        }
    }

    private static void callBack(List<String> given, WorkerOptions options, Worker worker, int times) throws Exception {
        Callback.Ready ready = new Callback.Ready(
                options.workerId(),
                options.names().id(),
                123_456,
                "system",
                worker.uri(),
                "starforge",
                List.of("text-gen"),
                "cpu",
                "cpu",
                "ready");
        for (int i = 0; i < times; i++) {
            new Callback(
                            URI.create(value(given, "--callback-url")),
                            options.keys().callbackKey(),
                            Duration.ofMillis(50))
                    .send(ready);
        }
    }

    private static int number(Properties model, String key, int otherwise) {
        return Integer.parseInt(model.getProperty(key, String.valueOf(otherwise)));
    }

    private static String value(List<String> args, String name) {
        return args.get(args.indexOf(name) + 1);
    }
}
