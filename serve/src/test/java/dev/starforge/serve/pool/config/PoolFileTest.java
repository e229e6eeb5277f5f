package dev.starforge.serve.pool.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.config.ConfigException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class PoolFileTest {
    @TempDir
    private Path folder;

    private PoolConfig read(String text) throws IOException {
        return PoolFile.read(
                Files.writeString(folder.resolve("pool.yaml"), text), Path.of("usual"), name -> Optional.empty());
    }

    @Test
    void everythingIsOptional() throws IOException {
        assertThat(read("")).isEqualTo(PoolConfig.empty(Path.of("usual")));
        assertThat(read("pool:\nrestart: {}\nmodels: []\n")).isEqualTo(PoolConfig.empty(Path.of("usual")));
    }

    @Test
    void everyKeyIsRead() throws IOException {
        PoolConfig config = read("""
            pool: {id: lab, state: state, listen: '0.0.0.0:9000', api_key_file: keys, admin_key_file: admins}
            restart: {backoff_s: 0.5, max_s: 10, stable_s: 5, breaker_failures: 3, breaker_open_s: 30}
            models:
              - {name: coder, path: coder.gguf, device: 'cuda:0', adapters: {ours: ours/best}, autostart: true, idle_stop_s: 600}
            workers:
              - {uri: 'http://gpu-1:8080', api_key_file: keys}
            """);
        assertThat(config.id()).isEqualTo("lab");
        assertThat(config.state()).isEqualTo(folder.resolve("state"));
        assertThat(config.listen()).isEqualTo("0.0.0.0:9000");
        assertThat(config.apiKeyFile()).contains(folder.resolve("keys"));
        assertThat(config.adminKeyFile()).contains(folder.resolve("admins"));
        assertThat(config.restart())
                .isEqualTo(new RestartPolicy(
                        Duration.ofMillis(500),
                        Duration.ofSeconds(10),
                        Duration.ofSeconds(5),
                        3,
                        Duration.ofSeconds(30)));
        ModelEntry model = config.model("coder").orElseThrow();
        assertThat(model.path()).isEqualTo(folder.resolve("coder.gguf"));
        assertThat(model.adapters()).isEqualTo(Map.of("ours", folder.resolve("ours/best")));
        assertThat(model.autostart()).isTrue();
        assertThat(model.idleStop()).contains(Duration.ofMinutes(10));
        assertThat(config.workers().getFirst().uri().getHost()).isEqualTo("gpu-1");
    }

    @Test
    void aModelIsAFileBesideTheConfigOrHasAName() throws IOException {
        Path mine = Files.createFile(folder.resolve("mine"));
        Path pulled = Path.of("store", "org", "pulled");
        Map<String, Path> store = Map.of("mine", Path.of("hidden"), "org/pulled", pulled);
        String text = "models: [{name: a, path: mine}, {name: b, path: org/pulled}, {name: c, path: nowhere}]";
        PoolConfig config = PoolFile.read(
                Files.writeString(folder.resolve("pool.yaml"), text),
                Path.of("usual"),
                name -> Optional.ofNullable(store.get(name)));
        assertThat(config.models().stream().map(ModelEntry::path))
                .containsExactly(mine, pulled, folder.resolve("nowhere"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        pool: {port: 1}                            | key pool.port: unknown key
        restart: {backof_s: 1}                     | did you mean restart.backoff_s?
        restart: {breaker_failures: 0}             | expected an integer of 1 or more, got 0
        restart: {max_s: -1}                       | expected seconds, 0 or more, got -1
        models: [{name: a}]                        | key models.path: is missing
        models: [{name: a, path: b, autostart: on}] | expected true or false, got on
        models: {name: a}                          | expected a list
        'models: [{name: a, path: b}, {name: a, path: c}]' | a is defined twice
        'models: [{name: a, path: b}, {name: c, path: d, adapters: {a: e}}]' | a is defined twice
        'pool: {id: a, id: b}'                             | key pool.id: duplicate key
        workers: [{uri: 'https://a:1'}]            | expected http://HOST:PORT
        workers: [{uri: 'http://a:99999'}]         | with a port of 1 to 65535, got http://a:99999
        workers: [{uri: 'http://a:0'}]             | with a port of 1 to 65535, got http://a:0
        workers: [{uri: 'http://k@a:1'}]           | expected http://HOST:PORT
        workers: [{uri: 'http://a:1?b'}]           | expected http://HOST:PORT
        'pool: {local_admin: true, admin_key_file: a}' | pool.local_admin: expected false with pool.admin_key_file
        pool: [                                    | is not YAML
        []                                         | expected keys
        """)
    void invalidSettingsAreReportedWithTheirLine(String text, String message) {
        assertThatThrownBy(() -> read(text))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("pool.yaml")
                .hasMessageContaining(message);
    }
}
