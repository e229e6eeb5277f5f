package dev.starforge.serve.api;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.random.RandomGenerator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The secret of one start of a worker, known to the worker and to the pool that started it. It never crosses a connection: what is sent
 * are codes derived from it (HMAC-SHA256), one per purpose, so that a program which receives one of them can use it for nothing else.
 */
public final class StartSecret {
    private static final String ALGORITHM = "HmacSHA256";

    private final String text;

    private StartSecret(String text) {
        this.text = text;
    }

    /** @param text as in {@link #text} */
    public static StartSecret of(String text) {
        if (!text.matches("[0-9a-f]{16,64}")) {
            throw new IllegalArgumentException(
                    "start secret: expected 16 to 64 hex digits, got " + text.length() + " characters");
        }
        return new StartSecret(text);
    }

    /** @param random unpredictable, such as {@link java.security.SecureRandom} */
    public static StartSecret random(RandomGenerator random) {
        byte[] bytes = new byte[32];
        random.nextBytes(bytes);
        return new StartSecret(HexFormat.of().formatHex(bytes));
    }

    /** The secret itself, for a file or a pipe that only the owner can read. */
    public String text() {
        return text;
    }

    /** The key of the ready callback. */
    public String callbackKey() {
        return code("callback");
    }

    /** The key that the pool sends with its requests to the worker. */
    public String requestKey() {
        return code("request");
    }

    /**
     * Proves the knowledge of the secret. The other side chooses {@code nonce}, so that an earlier proof cannot be repeated.
     *
     * @param port on which the worker listens; a program on another port cannot pass on the worker's proof as its own
     */
    public String proof(String nonce, int port) {
        return code("identity " + port + " " + nonce);
    }

    /** A name for {@code tenant} that only those who know the secret can derive. */
    public String tenantName(String tenant) {
        return code("tenant " + tenant);
    }

    /** Compares in constant time. */
    public static boolean areEqual(String expected, String actual) {
        return MessageDigest.isEqual(
                expected.getBytes(StandardCharsets.UTF_8), actual.getBytes(StandardCharsets.UTF_8));
    }

    private String code(String purpose) {
        try {
            Mac mac = Mac.getInstance(ALGORITHM);
            mac.init(new SecretKeySpec(text.getBytes(StandardCharsets.US_ASCII), ALGORITHM));
            return HexFormat.of().formatHex(mac.doFinal(purpose.getBytes(StandardCharsets.UTF_8)));
        } catch (GeneralSecurityException missing) {
            throw new IllegalStateException("every Java has " + ALGORITHM, missing);
        }
    }

    /** Not the secret: it could end up in a log. */
    @Override
    public String toString() {
        return "StartSecret";
    }
}
