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
 * Who may be heard. With keys, whoever has one; compared by their hashes, in a time that does not depend on where they
 * differ. Without keys, only this machine, and of this machine no web page: a page from anywhere can make a browser send
 * requests to 127.0.0.1, but not without saying so in {@code Origin}, or, with a name that it made point here, in {@code Host}.
 */
public final class AccessControl {
    private static final String BEARER = "bearer ";

    private final List<String> keys;
    private final List<String> adminKeys;

    /** @param keys hashes of them are all that is kept; none is no keys */
    public AccessControl(List<String> keys) {
        this(keys, List.of());
    }

    /** @param adminKeys the only ones that may change anything; none: whoever is heard may */
    public AccessControl(List<String> keys, List<String> adminKeys) {
        this.keys = keys.stream().map(Hashes::sha256).toList();
        this.adminKeys = adminKeys.stream().map(Hashes::sha256).toList();
    }

    /** Refuses to open a worker without a key to other machines. */
    public static void checkAddress(InetAddress address, List<String> keys) {
        if (!address.isLoopbackAddress() && keys.isEmpty()) {
            throw new IllegalArgumentException("listen: " + address.getHostAddress()
                    + " can be reached from other machines, which needs an API key; give --api-key-file (a"
                    + " pool: api_key_file in its config), or listen on 127.0.0.1");
        }
    }

    public void check(RequestHead head) {
        if (keys.isEmpty()) {
            checkLocal(head);
        } else if (tenant(head).isEmpty()) {
            throw unknown("an API key");
        }
    }

    /** For what changes the server: where there are keys for that, it takes one of them. */
    void checkAdmin(RequestHead head) {
        if (adminKeys.isEmpty() || adminKeys.contains(tenant(head))) {
            return;
        }
        throw tenant(head).isEmpty()
                ? unknown("an admin key")
                : new HttpException(
                        403, "admin_key_required", "this key may ask for text; this path needs an admin key");
    }

    private static HttpException unknown(String expected) {
        return new HttpException(
                401,
                "invalid_api_key",
                "expected " + expected + " in the header Authorization: Bearer KEY",
                Map.of("WWW-Authenticate", "Bearer"));
    }

    /** Whose key a request has, a client's or an admin's; empty without. */
    public String tenant(RequestHead head) {
        String given = head.header("authorization").orElse("");
        boolean bearer = given.regionMatches(true, 0, BEARER, 0, BEARER.length());
        byte[] hash = Hashes.sha256(bearer ? given.substring(BEARER.length()).strip() : "")
                .getBytes(StandardCharsets.US_ASCII);
        String tenant = "";
        for (String key : Stream.concat(keys.stream(), adminKeys.stream()).toList()) {
            // all of them, whichever it is
            tenant = MessageDigest.isEqual(hash, key.getBytes(StandardCharsets.US_ASCII)) ? key : tenant;
        }
        return tenant;
    }

    private static void checkLocal(RequestHead head) {
        String host = head.header("host").orElse("127.0.0.1");
        if (!isLocal(host)) {
            throw new HttpException(
                    403, "host_not_allowed", "without an API key the Host must be localhost or an address");
        }
        String origin = head.header("origin").orElse("http://" + host);
        if (!origin.equals("http://" + host)) {
            throw new HttpException(403, "origin_not_allowed", "without an API key web pages may not ask");
        }
    }

    /** An address, or localhost: names can be made to point anywhere. */
    private static boolean isLocal(String host) {
        String name = host.replaceFirst(":[0-9]*$", "");
        return name.equalsIgnoreCase("localhost") || name.matches("[0-9.]+") || name.matches("\\[[0-9a-fA-F:.]+]");
    }
}
