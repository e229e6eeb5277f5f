package dev.starforge.data.dataset;

/** How much was replaced; never what. */
record Redactions(long keys, long passwords, long mails) {
    static final Redactions NONE = new Redactions(0, 0, 0);

    static Redactions of(Secrets secrets) {
        return new Redactions(secrets.keys(), secrets.passwords(), secrets.mails());
    }

    Redactions plus(Redactions other) {
        return new Redactions(keys + other.keys, passwords + other.passwords, mails + other.mails);
    }
}
