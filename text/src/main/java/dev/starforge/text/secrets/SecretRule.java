package dev.starforge.text.secrets;

import java.util.Locale;

/** The rule that found a secret, and the placeholder that replaces it. */
public enum SecretRule {
    /** The body of a PEM or PGP private key. */
    PRIVATE_KEY("<KEY>", true),
    /** A key in a provider's format. */
    PROVIDER_KEY("<KEY>", true),
    /** A stored password hash, which must not be learned either. */
    PASSWORD_HASH("<PASSWORD>", false),
    /** A JSON web token; test suites contain many that are expired or made up. */
    WEB_TOKEN("<KEY>", false),
    /** The value of an Authorization header. */
    AUTH_HEADER("<KEY>", true),
    /** The password in a URL: {@code scheme://user:password@host}. */
    URL_PASSWORD("<PASSWORD>", false),
    /** A password in a command: {@code curl -u}, {@code sshpass -p}. */
    COMMAND_PASSWORD("<PASSWORD>", false),
    /** A value assigned to a name of a password. */
    NAMED_PASSWORD("<PASSWORD>", false),
    /** A random value assigned to a name of a key, secret or token. */
    NAMED_KEY("<KEY>", true),
    /** A short or less random value assigned to such a name. */
    NAMED_SECRET("<KEY>", false),
    /** A random quoted literal, regardless of its name. */
    RANDOM_LITERAL("<KEY>", false),
    EMAIL("<EMAIL>", false);

    private final String placeholder;
    private final boolean strong;

    SecretRule(String placeholder, boolean strong) {
        this.placeholder = placeholder;
        this.strong = strong;
    }

    public String placeholder() {
        return placeholder;
    }

    /** Returns true for rules with almost no false positives; a file with many such findings contains real secrets. */
    public boolean isStrong() {
        return strong;
    }

    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }
}
