package dev.starforge.cli.hub;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * GET requests to the hub and to the hosts that it redirects to. Redirects are followed here and not by the client, so that the
 * token goes to the endpoint's own host and to no other: large files lie elsewhere, behind addresses that are signed already.
 * Hosts are resolved before a request, since the client's time limits do not cover the resolver of the system.
 */
final class HubConnection {
    private static final int MOST_REDIRECTS = 5;
    private static final int MOST_SHOWN = 200;
    private static final Set<Integer> REDIRECTS = Set.of(301, 302, 303, 307, 308);

    private final URI endpoint;
    private final Optional<String> token;
    private final ProxySelector proxies;
    private final Hub.Timeouts timeouts;
    private final HttpClient client;

    HubConnection(URI endpoint, Optional<String> token, ProxySelector proxies, Hub.Timeouts timeouts) {
        if (token.isPresent() && !token.get().matches("[!-~]+")) {
            throw new HubException("HF_TOKEN: expected letters, digits and punctuation, without spaces");
        }
        this.endpoint = endpoint;
        this.token = token;
        this.proxies = proxies;
        this.timeouts = timeouts;
        this.client = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .proxy(proxies)
                .connectTimeout(timeouts.connect())
                .build();
    }

    /** The last response of a chain of redirects, and its address. */
    record Reply(URI address, HttpResponse<InputStream> response) {}

    /** A host that was not reached, or did not answer. The message names it. */
    static final class Unreachable extends IOException {
        private static final long serialVersionUID = 1;

        Unreachable(String host, String reason, Throwable cause) {
            super("cannot connect to " + host + ": " + reason, cause);
        }
    }

    /** Names the host of an address, and the proxy in between. */
    String route(URI address) {
        return address.getHost()
                + proxy(address)
                        .map(proxy -> " through the proxy " + proxy.getHostString() + ":" + proxy.getPort())
                        .orElse("");
    }

    /** The host that a connection goes to: the proxy, if there is one. */
    private String connected(URI address) {
        return proxy(address).map(InetSocketAddress::getHostString).orElse(address.getHost());
    }

    private Optional<InetSocketAddress> proxy(URI address) {
        return proxies.select(address).stream()
                .flatMap(proxy -> Optional.ofNullable(proxy.address()).stream())
                .map(InetSocketAddress.class::cast)
                .findFirst();
    }

    /** Requests a file from byte {@code from} on. */
    Reply get(URI address, long from) throws IOException {
        URI at = address;
        for (int i = 0; i <= MOST_REDIRECTS; i++) {
            HttpResponse<InputStream> response = send(at, from);
            if (!REDIRECTS.contains(response.statusCode())) {
                return new Reply(at, response);
            }
            response.body().close();
            at = redirect(at, response.headers().firstValue("Location").orElse(""));
        }
        throw new HubException(address + ": more than " + MOST_REDIRECTS + " redirects");
    }

    private static URI redirect(URI from, String location) {
        URI to;
        try {
            to = from.resolve(new URI(location));
        } catch (URISyntaxException wrong) {
            throw new HubException(from + ": redirects to an invalid address: '" + shown(location) + "'", wrong);
        }
        boolean secure = "https".equals(to.getScheme());
        if (!secure && (!"http".equals(to.getScheme()) || "https".equals(from.getScheme()))) {
            throw new HubException(
                    from + ": redirects to " + shown(location) + ", which is not HTTPS; the redirect was not followed");
        }
        if (location.isEmpty() || to.getHost() == null || to.getPort() > 65_535) {
            throw new HubException(from + ": redirects to an invalid address: '" + shown(location) + "'");
        }
        return to;
    }

    /** Shortens text of a server for a message. */
    static String shown(String text) {
        return text.length() <= MOST_SHOWN ? text : text.substring(0, MOST_SHOWN) + "...";
    }

    private HttpResponse<InputStream> send(URI address, long from) throws IOException {
        HttpRequest.Builder request =
                HttpRequest.newBuilder(address).timeout(timeouts.answer()).header("User-Agent", "starforge");
        if (from > 0) {
            request.header("Range", "bytes=" + from + "-");
        }
        if (isOwn(address)) {
            token.ifPresent(secret -> request.header("Authorization", "Bearer " + secret));
        }
        try {
            resolve(address);
            return client.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
        } catch (ProtocolException wrong) {
            throw new HubException(
                    address + ": invalid HTTP response: " + shown(String.valueOf(wrong.getMessage())), wrong);
        } catch (IOException failure) {
            throw new Unreachable(
                    route(address), NetworkFailure.reason(failure, connected(address), timeouts), failure);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new HubException(address + ": interrupted", interrupted);
        }
    }

    private void resolve(URI address) throws IOException, InterruptedException {
        String host = connected(address);
        FutureTask<InetAddress> lookup = new FutureTask<>(() -> InetAddress.getByName(host));
        Thread.ofPlatform().daemon().name("resolve " + host).start(lookup);
        try {
            lookup.get(timeouts.connect().toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException failure) {
            throw failure.getCause() instanceof IOException unknown ? unknown : new IOException(failure.getCause());
        } catch (TimeoutException silent) {
            throw new NetworkFailure.ResolverTimeout(silent);
        }
    }

    private boolean isOwn(URI address) {
        return endpoint.getScheme().equals(address.getScheme())
                && endpoint.getHost().equalsIgnoreCase(address.getHost())
                && endpoint.getPort() == address.getPort();
    }
}
