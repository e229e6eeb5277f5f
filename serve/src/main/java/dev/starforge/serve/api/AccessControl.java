package dev.starforge.serve.api;

import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.http.RequestHead;
import dev.starforge.text.file.Hashes;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * Authentication. With keys, a request needs one of them; hashes are compared in constant time. Without keys, only local clients are
 * served, and no web pages: a page from any site can make a browser send requests to 127.0.0.1, but {@code Origin}, or with DNS
 * rebinding {@code Host}, names that site.
 *
 * <p>A pool sends its workers an admin key of theirs, and names the tenant of each request in {@link #TENANT}: clients' own keys stay
 * with the pool.
 */
public final class AccessControl {
    /** Names the tenant on whose behalf an admin sends a request, by a hash, or as {@link #NO_TENANT}. */
    public static final String TENANT = "X-Starforge-Tenant";

    /** The tenant of clients without a key. */
    public static final String NO_TENANT = "none";

    private static final String BEARER = "bearer ";

    private final List<String> keys;
    private final List<String> adminKeys;
    private final boolean clientsAreAdmins;
    private final Predicate<String> workerKeys;

    /** @param keys API keys, stored only as hashes; empty for no authentication */
    public AccessControl(List<String> keys) {
        this(keys, List.of(), keys.isEmpty(), _ -> false);
    }

    /**
     * @param adminKeys keys for admin routes
     * @param clientsAreAdmins whether clients without an admin key may call admin routes
     * @param workerKeys returns true for the key of a worker that this server started
     */
    public AccessControl(
            List<String> keys, List<String> adminKeys, boolean clientsAreAdmins, Predicate<String> workerKeys) {
        this.keys = keys.stream().map(Hashes::sha256).toList();
        this.adminKeys = adminKeys.stream().map(Hashes::sha256).toList();
        this.clientsAreAdmins = clientsAreAdmins;
        this.workerKeys = workerKeys;
    }

    /** Fails if the address is reachable from other machines and there are no keys. */
    public static void checkAddress(InetAddress address, List<String> keys) {
        if (!address.isLoopbackAddress() && keys.isEmpty()) {
            throw new IllegalArgumentException("listen: " + address.getHostAddress()
                    + " is reachable from other machines, which requires an API key; pass --api-key-file"
                    + " (for a pool: api_key_file in its config), or listen on 127.0.0.1");
        }
    }

    public void check(RequestHead head) {
        if (keys.isEmpty()) {
            checkLocal(head);
        } else if (knownKey(head).isEmpty()) {
            throw unknown("an API key");
        }
    }

    /** Fails unless the request has an admin key, or clients are admins. */
    void checkAdmin(RequestHead head) {
        if (clientsAreAdmins || adminKeys.contains(knownKey(head))) {
            return;
        }
        if (adminKeys.isEmpty()) {
            throw adminKeyRequired("this path requires an admin key, and this server has none");
        }
        throw knownKey(head).isEmpty() ? unknown("an admin key") : adminKeyRequired("this path requires an admin key");
    }

    public static HttpException adminKeyRequired(String message) {
        return new HttpException(403, "admin_key_required", message);
    }

    /** Fails unless the request has the key of a worker that this server started. */
    void checkWorker(RequestHead head) {
        if (!workerKeys.test(bearer(head))) {
            throw unknown("the key of a worker that was started here");
        }
    }

    private static HttpException unknown(String expected) {
        return new HttpException(
                401,
                "invalid_api_key",
                "expected " + expected + " in the header Authorization: Bearer KEY",
                Map.of("WWW-Authenticate", "Bearer"));
    }

    /** The tenant of a request: the hash of its key, or for an admin, whom it names; empty if it has no key. */
    public String tenant(RequestHead head) {
        String key = knownKey(head);
        if (!adminKeys.contains(key)) {
            return key;
        }
        String named = head.header(TENANT.toLowerCase(Locale.ROOT)).orElse(key);
        return named.equals(NO_TENANT) ? "" : named.matches("[0-9a-f]{64}") ? named : key;
    }

    /** The hash of the request's key, a client key or an admin key; empty if it has none of them. */
    private String knownKey(RequestHead head) {
        byte[] hash = Hashes.sha256(bearer(head)).getBytes(StandardCharsets.US_ASCII);
        String known = "";
        for (String key : Stream.concat(keys.stream(), adminKeys.stream()).toList()) {
            // compares all keys, for constant time
            known = MessageDigest.isEqual(hash, key.getBytes(StandardCharsets.US_ASCII)) ? key : known;
        }
        return known;
    }

    /** The key that a request sends, known or not; empty if there is none. */
    public static String bearer(RequestHead head) {
        String given = head.header("authorization").orElse("");
        return given.regionMatches(true, 0, BEARER, 0, BEARER.length())
                ? given.substring(BEARER.length()).strip()
                : "";
    }

    private static void checkLocal(RequestHead head) {
        String host = head.header("host").orElse("127.0.0.1");
        if (!isLocal(host)) {
            throw new HttpException(
                    403, "host_not_allowed", "a server without API keys requires a Host of localhost or an IP address");
        }
        String origin = head.header("origin").orElse("http://" + host);
        if (!origin.equals("http://" + host)) {
            throw new HttpException(
                    403, "origin_not_allowed", "a server without API keys rejects requests of web pages");
        }
    }

    /** Returns true for localhost or an IP address; any other name can resolve to 127.0.0.1. */
    private static boolean isLocal(String host) {
        String name = host.replaceFirst(":[0-9]*$", "");
        return name.equalsIgnoreCase("localhost") || name.matches("[0-9.]+") || name.matches("\\[[0-9a-fA-F:.]+]");
    }
}
