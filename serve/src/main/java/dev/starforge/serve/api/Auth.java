package dev.starforge.serve.api;

/** Which clients may call a route. */
public enum Auth {
    /** All clients, without an API key: the response has only public information. */
    PUBLIC,
    /** Clients with an API key, or local clients if the server has no keys. */
    CLIENT,
    /** Clients with an admin key, if the server has admin keys. */
    ADMIN
}
