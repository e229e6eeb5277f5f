package dev.starforge.serve.api;

import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.http.RequestHead;
import dev.starforge.text.file.Hashes;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Authentication. With keys, a request needs one of them; hashes are compared in constant time. Without keys, only local clients are
 * served, and no web pages: a page from any site can make a browser send requests to 127.0.0.1, but {@code Origin}, or with DNS
 * rebinding {@code Host}, names that site.
 */
public final class AccessControl {
    private static final String BEARER = "bearer ";

    private final List<String> keys;
    private final List<String> adminKeys;

    /** @param keys API keys, stored only as hashes; empty for no authentication */
    public AccessControl(List<String> keys) {
        this(keys, List.of());
    }

    /** @param adminKeys keys for admin routes; if empty, every authenticated client may call them */
    public AccessControl(List<String> keys, List<String> adminKeys) {
        this.keys = keys.stream().map(Hashes::sha256).toList();
        this.adminKeys = adminKeys.stream().map(Hashes::sha256).toList();
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
        } else if (tenant(head).isEmpty()) {
            throw unknown("an API key");
        }
    }

    /** Fails unless the request has an admin key, if there are any. */
    void checkAdmin(RequestHead head) {
        if (adminKeys.isEmpty() || adminKeys.contains(tenant(head))) {
            return;
        }
        throw tenant(head).isEmpty()
                ? unknown("an admin key")
                : new HttpException(403, "admin_key_required", "this path requires an admin key");
    }

    private static HttpException unknown(String expected) {
        return new HttpException(
                401,
                "invalid_api_key",
                "expected " + expected + " in the header Authorization: Bearer KEY",
                Map.of("WWW-Authenticate", "Bearer"));
    }

    /** The hash of the request's key, a client key or an admin key; empty if it has none of them. */
    public String tenant(RequestHead head) {
        String given = head.header("authorization").orElse("");
        boolean bearer = given.regionMatches(true, 0, BEARER, 0, BEARER.length());
        byte[] hash = Hashes.sha256(bearer ? given.substring(BEARER.length()).strip() : "")
                .getBytes(StandardCharsets.US_ASCII);
        String tenant = "";
        for (String key : Stream.concat(keys.stream(), adminKeys.stream()).toList()) {
            // compares all keys, for constant time
            tenant = MessageDigest.isEqual(hash, key.getBytes(StandardCharsets.US_ASCII)) ? key : tenant;
        }
        return tenant;
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
