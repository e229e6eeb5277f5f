package dev.starforge.serve;

import dev.starforge.serve.http.HttpLimits;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * How a worker is set up.
 *
 * @param model the name that clients know the model by
 * @param address to listen on; one that other machines reach needs a key
 * @param keys of which a request must have one; none for this machine alone
 * @param requests worked on at once over HTTP; what the engine computes at once is its own business
 * @param timeout of one request
 * @param drainTime that running requests have when the worker ends
 * @param adapterRoot below which adapters may be loaded at run time
 */
public record WorkerOptions(
        String workerId,
        String model,
        InetSocketAddress address,
        List<String> keys,
        HttpLimits limits,
        int requests,
        Duration timeout,
        Duration drainTime,
        Optional<Path> adapterRoot) {
    public WorkerOptions {
        keys = List.copyOf(keys);
        if (keys.stream().anyMatch(String::isBlank)) {
            throw new IllegalArgumentException("worker: an API key is blank");
        }
    }

    /** On 127.0.0.1 for this machine, with the limits that are good for most. */
    public static WorkerOptions local(String workerId, String model, int port) {
        return new WorkerOptions(
                workerId,
                model,
                new InetSocketAddress("127.0.0.1", port),
                List.of(),
                HttpLimits.DEFAULT,
                256,
                Duration.ofSeconds(300),
                Duration.ofSeconds(30),
                Optional.empty());
    }

    public WorkerOptions withAddress(InetSocketAddress value) {
        return new WorkerOptions(workerId, model, value, keys, limits, requests, timeout, drainTime, adapterRoot);
    }

    public WorkerOptions withKeys(List<String> value) {
        return new WorkerOptions(workerId, model, address, value, limits, requests, timeout, drainTime, adapterRoot);
    }

    public WorkerOptions withLimits(HttpLimits value, int requestsAtOnce) {
        return new WorkerOptions(
                workerId, model, address, keys, value, requestsAtOnce, timeout, drainTime, adapterRoot);
    }

    public WorkerOptions withTimes(Duration request, Duration drain) {
        return new WorkerOptions(workerId, model, address, keys, limits, requests, request, drain, adapterRoot);
    }

    public WorkerOptions withAdapterRoot(Path value) {
        return new WorkerOptions(
                workerId, model, address, keys, limits, requests, timeout, drainTime, Optional.of(value));
    }
}
