package dev.starforge.serve;

import dev.starforge.serve.http.HttpLimits;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * Settings of a worker.
 *
 * @param model model name in the API
 * @param aliases further names that requests can use for the model
 * @param address address to listen on; any but a loopback address requires a key
 * @param keys API keys; requests must send one of them; empty serves only local clients
 * @param requests maximum number of concurrent HTTP requests
 * @param timeout request timeout
 * @param drainTime time that running requests have to finish on shutdown
 * @param adapterRoot folder below which adapters can be loaded at run time
 * @param specialTokensInContent whether special tokens in chat messages are encoded as such, not as ordinary text
 */
public record WorkerOptions(
        String workerId,
        String model,
        List<String> aliases,
        InetSocketAddress address,
        List<String> keys,
        HttpLimits limits,
        int requests,
        Duration timeout,
        Duration drainTime,
        Optional<Path> adapterRoot,
        boolean specialTokensInContent) {
    public WorkerOptions {
        aliases = List.copyOf(aliases);
        keys = List.copyOf(keys);
        if (keys.stream().anyMatch(String::isBlank)) {
            throw new IllegalArgumentException("worker: an API key is blank");
        }
    }

    /** Defaults, on 127.0.0.1 without keys. */
    public static WorkerOptions local(String workerId, String model, int port) {
        return new WorkerOptions(
                workerId,
                model,
                List.of(),
                new InetSocketAddress("127.0.0.1", port),
                List.of(),
                HttpLimits.DEFAULT,
                256,
                Duration.ofSeconds(300),
                Duration.ofSeconds(30),
                Optional.empty(),
                false);
    }

    public WorkerOptions withAddress(InetSocketAddress value) {
        return new WorkerOptions(
                workerId, model, aliases, value, keys, limits, requests, timeout, drainTime, adapterRoot,
                specialTokensInContent);
    }

    public WorkerOptions withAliases(List<String> value) {
        return new WorkerOptions(
                workerId, model, value, address, keys, limits, requests, timeout, drainTime, adapterRoot,
                specialTokensInContent);
    }

    public WorkerOptions withKeys(List<String> value) {
        return new WorkerOptions(
                workerId, model, aliases, address, value, limits, requests, timeout, drainTime, adapterRoot,
                specialTokensInContent);
    }

    public WorkerOptions withLimits(HttpLimits value, int requestsAtOnce) {
        return new WorkerOptions(
                workerId, model, aliases, address, keys, value, requestsAtOnce, timeout, drainTime, adapterRoot,
                specialTokensInContent);
    }

    public WorkerOptions withTimes(Duration request, Duration drain) {
        return new WorkerOptions(
                workerId, model, aliases, address, keys, limits, requests, request, drain, adapterRoot,
                specialTokensInContent);
    }

    public WorkerOptions withAdapterRoot(Path value) {
        return new WorkerOptions(
                workerId, model, aliases, address, keys, limits, requests, timeout, drainTime, Optional.of(value),
                specialTokensInContent);
    }

    public WorkerOptions withSpecialTokensInContent(boolean value) {
        return new WorkerOptions(
                workerId, model, aliases, address, keys, limits, requests, timeout, drainTime, adapterRoot, value);
    }
}
