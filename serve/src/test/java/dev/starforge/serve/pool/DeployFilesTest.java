package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.http.Exchange;
import dev.starforge.serve.http.Handler;
import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.http.HttpLimits;
import dev.starforge.serve.http.HttpServer;
import dev.starforge.serve.http.RequestHead;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.config.PoolFile;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import java.io.IOException;
import java.io.StringReader;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.w3c.dom.Document;
import org.w3c.dom.Node;
import org.xml.sax.InputSource;

/** The files in {@code deploy}, and a forge's workflows: parsed, and held to what the program and each other say. They are not run here. */
final class DeployFilesTest {
    private static final Path DEPLOY = Path.of("..", "deploy");

    @TempDir
    private Path folder;

    private static List<Map<?, ?>> yaml(String file) throws IOException {
        return yaml(DEPLOY.resolve("kubernetes").resolve(file));
    }

    private static List<Map<?, ?>> yaml(Path file) throws IOException {
        List<Map<?, ?>> documents = new ArrayList<>();
        new Load(LoadSettings.builder().build())
                .loadAllFromString(Files.readString(file))
                .forEach(document -> documents.add((Map<?, ?>) document));
        return documents;
    }

    private static Map<?, ?> kind(String file, String kind) throws IOException {
        return yaml(file).stream()
                .filter(each -> each.get("kind").equals(kind))
                .findFirst()
                .orElseThrow();
    }

    private static Object at(Object node, Object... path) {
        Object found = node;
        for (Object step : path) {
            found = step instanceof Integer index ? ((List<?>) found).get(index) : ((Map<?, ?>) found).get(step);
            assertThat(found).as("%s of %s", step, List.of(path)).isNotNull();
        }
        return found;
    }

    private static Object pod(String file) throws IOException {
        return at(kind(file, "Deployment"), "spec", "template", "spec");
    }

    @Test
    void thePoolResolvesTheServiceOfTheWorkers() throws IOException {
        Map<?, ?> service = kind("worker.yaml", "Service");
        assertThat(at(service, "spec", "clusterIP"))
                .as("headless: an address for each")
                .isEqualTo("None");
        String text = at(kind("pool.yaml", "ConfigMap"), "data", "pool.yaml").toString();
        PoolConfig config =
                PoolFile.read(Files.writeString(folder.resolve("pool.yaml"), text), folder, name -> Optional.empty());
        assertThat(config.workers().getFirst().uri().getHost()).isEqualTo(at(service, "metadata", "name"));
        assertThat(config.workers().getFirst().uri().getPort())
                .isEqualTo(at(service, "spec", "ports", 0, "port"))
                .isEqualTo(at(pod("worker.yaml"), "containers", 0, "ports", 0, "containerPort"));
        assertThat(at(service, "spec", "selector"))
                .isEqualTo(at(kind("worker.yaml", "Deployment"), "spec", "template", "metadata", "labels"));
        assertThat(config.listen()).endsWith(":" + at(pod("pool.yaml"), "containers", 0, "ports", 0, "containerPort"));
    }

    @Test
    void theKeyComesFromTheSecretAndContainersAreNotRoot() throws IOException {
        Object secret = at(kind("secret.yaml", "Secret"), "metadata", "name");
        for (String file : List.of("worker.yaml", "pool.yaml")) {
            Object pod = pod(file);
            assertThat(pod.toString()).contains("secretName=" + secret);
            assertThat(at(pod, "securityContext", "runAsNonRoot")).isEqualTo(true);
            assertThat(at(pod, "containers", 0, "securityContext", "allowPrivilegeEscalation"))
                    .isEqualTo(false);
            assertThat(at(pod, "containers", 0, "livenessProbe", "httpGet", "path"))
                    .isEqualTo("/health");
            assertThat(probe(pod)).contains("GET /ready ");
        }
        assertThat(Files.readString(DEPLOY.resolve("Dockerfile"))).contains("USER 10001", "ENTRYPOINT [\"");
    }

    private static String probe(Object pod) {
        return at(pod, "containers", 0, "readinessProbe", "exec", "command", 2).toString();
    }

    /** Long enough to be noticed missing, to drain, and to end. */
    @Test
    void theGracePeriodIsEnoughToDrain() throws IOException {
        Object pod = pod("worker.yaml");
        int sleep = Integer.parseInt(at(pod, "containers", 0, "lifecycle", "preStop", "exec", "command", 1)
                .toString());
        int grace = (int) at(pod, "terminationGracePeriodSeconds");
        assertThat(sleep).isGreaterThan((int) PoolTimeouts.DEFAULT.resolve().toSeconds());
        assertThat(grace).isGreaterThan(sleep + 30);
        assertThat((int) at(pod("pool.yaml"), "terminationGracePeriodSeconds"))
                .isGreaterThan((int) PoolTimeouts.DEFAULT.drain().toSeconds());
    }

    /** The flags of the worker are flags that it has. */
    @Test
    void theArgumentsAreOnesThatTheWorkerKnows() throws IOException {
        String flags = Files.readString(Path.of("..", "cli/src/main/java/dev/starforge/cli/options/ServingFlags.java"))
                + Files.readString(Path.of("..", "cli/src/main/java/dev/starforge/cli/command/WorkerCommand.java"));
        for (Object argument : (List<?>) at(pod("worker.yaml"), "containers", 0, "args")) {
            if (argument.toString().startsWith("--")) {
                assertThat(flags).contains("\"" + argument.toString().replaceFirst("=.*", "") + "\"");
            }
        }
    }

    /** The readiness probe, as a shell runs it. */
    @Test
    void theReadinessProbeAsksWithTheKey() throws Exception {
        Files.writeString(folder.resolve("key"), "the-key\n");
        Ready ready = new Ready();
        try (HttpServer server =
                HttpServer.start(new InetSocketAddress("127.0.0.1", 0), ready, HttpLimits.DEFAULT, Clock.systemUTC())) {
            String script = probe(pod("worker.yaml"))
                    .replace("/8080", "/" + server.port())
                    .replace("/etc/starforge/key/key", folder.resolve("key").toString());
            assertThat(new ProcessBuilder("bash", "-c", script).start().waitFor())
                    .isZero();
            ready.status = 503;
            assertThat(new ProcessBuilder("bash", "-c", script).start().waitFor())
                    .isNotZero();
            assertThat(ready.keys).containsExactly("Bearer the-key", "Bearer the-key");
        }
    }

    private static final class Ready implements Handler {
        private final List<String> keys = new ArrayList<>();
        private volatile int status = 200;

        @Override
        public void admit(RequestHead head) {}

        @Override
        public void handle(Exchange exchange) throws IOException {
            keys.add(exchange.head().header("authorization").orElse(""));
            exchange.respond(exchange.head().path().equals("/ready") ? status : 404, "text/plain", new byte[0]);
        }

        @Override
        public ErrorResponse describe(RequestHead head, HttpException failure) {
            return describe(failure);
        }

        @Override
        public ErrorResponse describe(HttpException failure) {
            return new ErrorResponse(new byte[0], Map.of());
        }
    }

    @Test
    void systemdLeavesWorkersToThePool() throws IOException {
        Map<String, String> unit = new LinkedHashMap<>();
        for (String line : Files.readAllLines(DEPLOY.resolve("systemd/starforge-pool.service"))) {
            if (line.contains("=") && !line.startsWith("#")) {
                unit.put(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
            }
        }
        assertThat(unit)
                .containsEntry("ExecStart", "/opt/starforge/starforge pool --config /etc/starforge/pool.yaml")
                .containsEntry("KillMode", "process")
                .containsEntry("Restart", "always")
                .containsEntry("User", "starforge");
        PoolTimeouts timing = PoolTimeouts.DEFAULT;
        assertThat(Integer.parseInt(unit.getOrDefault("TimeoutStopSec", "0")))
                .isGreaterThan((int) timing.drain().plus(timing.terminate()).toSeconds());
    }

    @Test
    void launchdDoesSo() throws Exception {
        String text = Files.readString(DEPLOY.resolve("launchd/dev.starforge.pool.plist"))
                .replaceFirst("<!DOCTYPE[^>]*>", "");
        Document plist = DocumentBuilderFactory.newInstance()
                .newDocumentBuilder()
                .parse(new InputSource(new StringReader(text)));
        Map<String, String> values = new LinkedHashMap<>();
        Node dict = plist.getElementsByTagName("dict").item(0);
        String key = "";
        for (Node node = dict.getFirstChild(); node != null; node = node.getNextSibling()) {
            if (node.getNodeName().equals("key")) {
                key = node.getTextContent();
            } else if (node.getNodeType() == Node.ELEMENT_NODE) {
                String words = node.getTextContent().strip().replaceAll("\\s+", " ");
                values.put(key, words.isEmpty() ? node.getNodeName() : words);
            }
        }
        assertThat(values.get("ProgramArguments")).contains("starforge pool --config");
        assertThat(values).containsEntry("AbandonProcessGroup", "true").containsEntry("ExitTimeOut", "90");
    }

    /** A tag can be moved to other content, a digest cannot. */
    @Test
    void imagesAndActionsArePinnedByDigest() throws IOException {
        String image = "[\\w./-]+:[\\w.-]+@sha256:[0-9a-f]{64}";
        assertThat(Files.readAllLines(DEPLOY.resolve("Dockerfile")))
                .filteredOn(line -> line.matches("(FROM|ARG BASE).*"))
                .hasSize(3)
                .allMatch(line -> line.matches("FROM " + image + " AS build|ARG BASE=" + image + "|FROM \\$\\{BASE}"));
        Path workflows = Path.of("..", ".github", "workflows");
        try (Stream<Path> files = Files.list(workflows)) {
            for (Path file : files.toList()) {
                assertThat(Files.readAllLines(file))
                        .filteredOn(line -> line.contains("uses:"))
                        .isNotEmpty()
                        .allMatch(line -> line.matches(".*uses: [\\w./-]+@[0-9a-f]{40} # v[0-9.]+"));
            }
        }
        assertThat(Files.readAllLines(Path.of("..", ".mvn", "maven.config"))).contains("--strict-checksums");
    }

    /** What a job of a workflow runs, in its order. */
    private static List<String> commands(Map<?, ?> workflow, String job) {
        List<String> commands = new ArrayList<>();
        for (Object step : (List<?>) at(workflow, "jobs", job, "steps")) {
            if (((Map<?, ?>) step).get("run") instanceof String command) {
                commands.add(command);
            }
        }
        return commands;
    }

    @Test
    void aForgeRunsWhatAPersonRunsOnLinuxAndMacs() throws IOException {
        Path workflows = Path.of("..", ".github", "workflows");
        Map<?, ?> ci = yaml(workflows.resolve("ci.yml")).getFirst();
        assertThat(commands(ci, "linux")).containsExactly(".ci/run");
        assertThat(at(ci, "jobs", "macos", "runs-on").toString()).startsWith("macos-");
        assertThat(commands(ci, "macos")).contains("./starforge devices").anyMatch(each -> each.contains("metal"));
        Map<?, ?> release = yaml(workflows.resolve("release.yml")).getFirst();
        assertThat((List<?>) at(release, "jobs", "archive", "strategy", "matrix", "runner"))
                .as("the last Macs with an Intel processor, and those of Apple silicon")
                .anyMatch("macos-13"::equals)
                .anyMatch("macos-latest"::equals);
        assertThat(commands(release, "archive")).contains("scripts/image");
        for (String command : List.of(".ci/run", "scripts/image", "starforge", "mvnw")) {
            assertThat(Path.of("..", command)).isExecutable();
        }
        for (Map<?, ?> workflow : List.of(ci, release)) {
            assertThat(at(workflow, "permissions")).as("no right but to read").isEqualTo(Map.of("contents", "read"));
        }
    }

    @Test
    void theExampleIsReadAsAConfig() {
        PoolConfig config = PoolFile.read(DEPLOY.resolve("pool.yaml"), folder, name -> Optional.empty());
        assertThat(config.models()).hasSize(2);
    }
}
