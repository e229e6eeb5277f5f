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
 * @param address address to listen on; any but a loopback address requires a key
 * @param limits limits of the HTTP server
 * @param requests maximum number of concurrent HTTP requests
 * @param adapterRoot folder below which adapters can be loaded at run time
 * @param specialTokensInContent whether special tokens in chat messages are encoded as such, not as ordinary text
 */
public record WorkerOptions(
        String workerId,
        ModelNames names,
        InetSocketAddress address,
        WorkerKeys keys,
        HttpLimits limits,
        int requests,
        WorkerTimes times,
        Optional<Path> adapterRoot,
        boolean specialTokensInContent) {
    /**
     * Names of the model in the API.
     *
     * @param id the name in responses
     * @param aliases further names that requests can use
     */
    public record ModelNames(String id, List<String> aliases) {
        public ModelNames {
            aliases = List.copyOf(aliases);
        }
    }

    /**
     * Who may use a worker.
     *
     * @param clients API keys; requests must send one of them; empty serves only local clients
     * @param admins keys that may also shut the worker down, and send requests on behalf of tenants
     * @param startSecret hex digits shared with the pool that started the worker; empty without a pool
     */
    public record WorkerKeys(List<String> clients, List<String> admins, String startSecret) {
        public WorkerKeys {
            clients = List.copyOf(clients);
            admins = List.copyOf(admins);
            if (Stream.concat(clients.stream(), admins.stream()).anyMatch(String::isBlank)) {
                throw new IllegalArgumentException("worker: an API key is blank");
            }
        }

        /** The key of the ready callback: that of the start if a pool started the worker, else the first API key; empty without keys. */
        public String callbackKey() {
            return secret().map(StartSecret::callbackKey)
                    .orElseGet(() -> clients.stream().findFirst().orElse(""));
        }

        Optional<StartSecret> secret() {
            return startSecret.isEmpty() ? Optional.empty() : Optional.of(StartSecret.of(startSecret));
        }

        /** The admin keys, with the one of the pool that started the worker. */
        List<String> allAdmins() {
            return Stream.concat(admins.stream(), secret().map(StartSecret::requestKey).stream())
                    .toList();
        }
    }

    /**
     * @param request request timeout
     * @param drain time that running requests have to finish on shutdown
     */
    public record WorkerTimes(Duration request, Duration drain) {}

    /** A worker on this machine, without keys. */
    public static WorkerOptions local(String workerId, String model, int port) {
        return new WorkerOptions(
                workerId,
                new ModelNames(model, List.of()),
                new InetSocketAddress("127.0.0.1", port),
                new WorkerKeys(List.of(), List.of(), ""),
                HttpLimits.DEFAULT,
                256,
                new WorkerTimes(Duration.ofSeconds(300), Duration.ofSeconds(30)),
                Optional.empty(),
                false);
    }

    public WorkerOptions withNames(ModelNames value) {
        return new WorkerOptions(
                workerId, value, address, keys, limits, requests, times, adapterRoot, specialTokensInContent);
    }

    public WorkerOptions withAddress(InetSocketAddress value) {
        return new WorkerOptions(
                workerId, names, value, keys, limits, requests, times, adapterRoot, specialTokensInContent);
    }

    public WorkerOptions withKeys(List<String> clients) {
        return withKeys(clients, keys.admins());
    }

    public WorkerOptions withKeys(List<String> clients, List<String> admins) {
        return withKeys(new WorkerKeys(clients, admins, keys.startSecret()));
    }

    public WorkerOptions withStartSecret(String value) {
        return withKeys(new WorkerKeys(keys.clients(), keys.admins(), value));
    }

    private WorkerOptions withKeys(WorkerKeys value) {
        return new WorkerOptions(
                workerId, names, address, value, limits, requests, times, adapterRoot, specialTokensInContent);
    }

    public WorkerOptions withLimits(HttpLimits value, int requestsAtOnce) {
        return new WorkerOptions(
                workerId, names, address, keys, value, requestsAtOnce, times, adapterRoot, specialTokensInContent);
    }

    public WorkerOptions withTimes(Duration request, Duration drain) {
        return new WorkerOptions(
                workerId,
                names,
                address,
                keys,
                limits,
                requests,
                new WorkerTimes(request, drain),
                adapterRoot,
                specialTokensInContent);
    }

    public WorkerOptions withAdapterRoot(Path value) {
        return new WorkerOptions(
                workerId, names, address, keys, limits, requests, times, Optional.of(value), specialTokensInContent);
    }

    public WorkerOptions withSpecialTokensInContent(boolean value) {
        return new WorkerOptions(workerId, names, address, keys, limits, requests, times, adapterRoot, value);
    }
}
