package dev.starforge.serve.api;

/** Which clients may call a route. */
public enum Auth {
    /** All clients, without an API key: the response has only public information. */
    PUBLIC,
    /** Clients with an API key, or local clients if the server has no keys. */
    CLIENT,
    /** Clients with an admin key; clients without one only where the server says that its clients are admins. */
    ADMIN,
    /** Workers that this server started, with the key of their start. */
    WORKER;

    /** Returns true if requests without a client key or an admin key are admitted. */
    boolean needsNoClientKey() {
        return this == PUBLIC || this == WORKER;
    }
}
