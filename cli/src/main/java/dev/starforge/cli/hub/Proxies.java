package dev.starforge.cli.hub;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.SocketAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Proxies of the environment, as in curl: {@code HTTPS_PROXY}, {@code HTTP_PROXY}, {@code ALL_PROXY} and {@code NO_PROXY},
 * also in lower case. Without any of them, Java's settings apply.
 */
public final class Proxies extends ProxySelector {
    private final Function<String, Optional<String>> variables;

    private Proxies(Function<String, Optional<String>> variables) {
        this.variables = variables;
    }

    /** @param variables of the environment, by name */
    public static ProxySelector of(Function<String, Optional<String>> variables) {
        Proxies proxies = new Proxies(variables);
        boolean any = Stream.of("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
                .anyMatch(name -> proxies.variable(name).isPresent());
        return any ? proxies : ProxySelector.getDefault();
    }

    private Optional<String> variable(String name) {
        return variables
                .apply(name.toLowerCase(Locale.ROOT))
                .or(() -> variables.apply(name))
                .filter(value -> !value.isBlank());
    }

    @Override
    public List<Proxy> select(URI address) {
        if (isDirect(address.getHost())) {
            return List.of(Proxy.NO_PROXY);
        }
        return variable(address.getScheme().toUpperCase(Locale.ROOT) + "_PROXY")
                .or(() -> variable("ALL_PROXY"))
                .map(Proxies::proxy)
                .map(List::of)
                .orElse(List.of(Proxy.NO_PROXY));
    }

    private boolean isDirect(String host) {
        return variable("NO_PROXY").stream()
                .flatMap(list -> Stream.of(list.split(",", -1)))
                .map(String::strip)
                .map(entry -> entry.startsWith(".") ? entry.substring(1) : entry)
                .anyMatch(entry ->
                        entry.equals("*") || host.equals(entry) || !entry.isEmpty() && host.endsWith("." + entry));
    }

    private static Proxy proxy(String text) {
        URI address;
        try {
            address = new URI(text.contains("://") ? text : "http://" + text);
        } catch (URISyntaxException wrong) {
            throw wrong(text);
        }
        if (address.getHost() == null
                || address.getPort() > 65_535
                || !"http".equals(address.getScheme())
                || address.getUserInfo() != null) {
            throw wrong(text);
        }
        return new Proxy(
                Proxy.Type.HTTP,
                InetSocketAddress.createUnresolved(address.getHost(), address.getPort() < 0 ? 80 : address.getPort()));
    }

    private static HubException wrong(String text) {
        return new HubException("proxy '" + text.replaceAll("//.*@", "//…@")
                + "': expected http://HOST:PORT without a password, which is all that is supported");
    }

    @Override
    public void connectFailed(URI address, SocketAddress proxy, IOException failure) {
        // the request itself fails, and says so
    }
}
