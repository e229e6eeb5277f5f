package dev.starforge.serve;

import dev.starforge.serve.api.StartSecret;
import dev.starforge.serve.http.HttpLimits;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Settings of a worker.
 *
 * @param model model name in the API
 * @param address address to listen on; any but a loopback address requires a key
 * @param keys API keys; requests must send one of them; empty serves only local clients
 * @param adminKeys keys that may also shut the worker down, and send requests on behalf of tenants
 * @param startSecret hex digits shared with the pool that started the worker; empty without a pool
 * @param requests maximum number of concurrent HTTP requests
 * @param timeout request timeout
 * @param drainTime time that running requests have to finish on shutdown
 * @param adapterRoot folder below which adapters can be loaded at run time
 */
public record WorkerOptions(
        String workerId,
        String model,
        InetSocketAddress address,
        List<String> keys,
        List<String> adminKeys,
        String startSecret,
        HttpLimits limits,
        int requests,
        Duration timeout,
        Duration drainTime,
        Optional<Path> adapterRoot) {
    public WorkerOptions {
        keys = List.copyOf(keys);
        adminKeys = List.copyOf(adminKeys);
        if (Stream.concat(keys.stream(), adminKeys.stream()).anyMatch(String::isBlank)) {
            throw new IllegalArgumentException("worker: an API key is blank");
        }
    }

    /** Defaults, on 127.0.0.1 without keys. */
    public static WorkerOptions local(String workerId, String model, int port) {
        return new WorkerOptions(
                workerId,
                model,
                new InetSocketAddress("127.0.0.1", port),
                List.of(),
                List.of(),
                "",
                HttpLimits.DEFAULT,
                256,
                Duration.ofSeconds(300),
                Duration.ofSeconds(30),
                Optional.empty());
    }

    public WorkerOptions withAddress(InetSocketAddress value) {
        return new WorkerOptions(
                workerId,
                model,
                value,
                keys,
                adminKeys,
                startSecret,
                limits,
                requests,
                timeout,
                drainTime,
                adapterRoot);
    }

    public WorkerOptions withKeys(List<String> value) {
        return withKeys(value, adminKeys);
    }

    public WorkerOptions withKeys(List<String> clients, List<String> admins) {
        return new WorkerOptions(
                workerId,
                model,
                address,
                clients,
                admins,
                startSecret,
                limits,
                requests,
                timeout,
                drainTime,
                adapterRoot);
    }

    public WorkerOptions withStartSecret(String value) {
        return new WorkerOptions(
                workerId, model, address, keys, adminKeys, value, limits, requests, timeout, drainTime, adapterRoot);
    }

    public WorkerOptions withLimits(HttpLimits value, int requestsAtOnce) {
        return new WorkerOptions(
                workerId,
                model,
                address,
                keys,
                adminKeys,
                startSecret,
                value,
                requestsAtOnce,
                timeout,
                drainTime,
                adapterRoot);
    }

    public WorkerOptions withTimes(Duration request, Duration drain) {
        return new WorkerOptions(
                workerId, model, address, keys, adminKeys, startSecret, limits, requests, request, drain, adapterRoot);
    }

    public WorkerOptions withAdapterRoot(Path value) {
        return new WorkerOptions(
                workerId,
                model,
                address,
                keys,
                adminKeys,
                startSecret,
                limits,
                requests,
                timeout,
                drainTime,
                Optional.of(value));
    }

    /** The key of the ready callback: that of the start if a pool started the worker, else the first API key; empty without keys. */
    public String callbackKey() {
        return secret().map(StartSecret::callbackKey)
                .orElseGet(() -> keys.stream().findFirst().orElse(""));
    }

    Optional<StartSecret> secret() {
        return startSecret.isEmpty() ? Optional.empty() : Optional.of(StartSecret.of(startSecret));
    }

    /** The admin keys, with the one of the pool that started the worker. */
    List<String> allAdminKeys() {
        return Stream.concat(adminKeys.stream(), secret().map(StartSecret::requestKey).stream())
                .toList();
    }
}
