package dev.starforge.text.secrets;

import java.util.Locale;

/** By which evidence something was found, and what is put in its place. */
public enum SecretRule {
    /** The body of a PEM or PGP private key. */
    PRIVATE_KEY("<KEY>", true),
    /** A key of a provider's shape. */
    PROVIDER_KEY("<KEY>", true),
    /** What a password is stored as; not to be learned either, and not the password. */
    PASSWORD_HASH("<PASSWORD>", false),
    /** A JSON web token; test suites have many, expired or made up. */
    WEB_TOKEN("<KEY>", false),
    /** What an Authorization header holds. */
    AUTH_HEADER("<KEY>", true),
    /** The password of an address: {@code scheme://user:password@host}. */
    URL_PASSWORD("<PASSWORD>", false),
    /** A password that a command is given: {@code curl -u}, {@code sshpass -p}. */
    COMMAND_PASSWORD("<PASSWORD>", false),
    /** What is assigned to something called a password. */
    NAMED_PASSWORD("<PASSWORD>", false),
    /** A random value that is assigned to something called a key, secret or token. */
    NAMED_KEY("<KEY>", true),
    /** The same of a value that is short or not quite random. */
    NAMED_SECRET("<KEY>", false),
    /** A quoted literal that is random, whatever it is called. */
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

    /** Whether it hardly ever is something else: a file with many of these holds real secrets. */
    public boolean isStrong() {
        return strong;
    }

    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }
}
