package dev.starforge.serve.http;

import java.util.Map;

/** An error response. The message is sent to the client and must not contain internal details. */
public final class HttpException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int status;
    private final String code;
    private final transient Map<String, String> headers;

    public HttpException(int status, String code, String message) {
        this(status, code, message, Map.of());
    }

    /**
     * @param code machine-readable, such as {@code body_too_large}
     * @param headers response headers such as {@code Retry-After}
     */
    public HttpException(int status, String code, String message, Map<String, String> headers) {
        super(message, null, false, false);
        this.status = status;
        this.code = code;
        this.headers = Map.copyOf(headers);
    }

    public int status() {
        return status;
    }

    public String code() {
        return code;
    }

    public Map<String, String> headers() {
        return headers;
    }

    public String text() {
        return String.valueOf(getMessage());
    }
}
