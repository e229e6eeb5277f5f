package dev.starforge.api;

import dev.starforge.serve.WorkerOptions;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;

/**
 * Configuration of a server. Values out of range are rejected when the server starts.
 *
 * @param modelName model name in the API
 * @param host address to listen on; any but a loopback address requires an API key
 * @param port port to listen on; 0 chooses a free port
 * @param apiKeys requests must send one of them; empty serves only local clients, without keys
 * @param maxBatch maximum number of sequences in a batch, 1 to 64
 * @param maxQueue maximum number of requests, including waiting ones; further requests are answered with 429
 * @param context maximum number of tokens of prompt and completion; empty for the context length of the model
 * @param kvCacheBytes memory of the KV cache; 0 for at most a quarter of the free memory
 * @param requestTimeout maximum duration of a request
 */
public record ServeConfig(
        String modelName,
        String host,
        int port,
        List<String> apiKeys,
        int maxBatch,
        int maxQueue,
        OptionalInt context,
        long kvCacheBytes,
        Duration requestTimeout) {
    /** Copies the keys. */
    public ServeConfig {
        apiKeys = List.copyOf(apiKeys);
    }

    /**
     * Returns the configuration of {@code starforge serve} without options: 127.0.0.1, no keys.
     *
     * @param modelName model name in the API
     * @param port port to listen on; 0 chooses a free port
     * @return the config
     */
    public static ServeConfig local(String modelName, int port) {
        return new ServeConfig(
                modelName, "127.0.0.1", port, List.of(), 32, 256, OptionalInt.empty(), 0, Duration.ofSeconds(300));
    }

    WorkerOptions worker() {
        try {
            return WorkerOptions.local("api", modelName, port)
                    .withAddress(new InetSocketAddress(InetAddress.getByName(host), port))
                    .withKeys(apiKeys)
                    .withTimes(requestTimeout, Duration.ofSeconds(30));
        } catch (UnknownHostException e) {
            throw new StarforgeException("host: unknown host " + host);
        }
    }
}
