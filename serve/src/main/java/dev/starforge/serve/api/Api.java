package dev.starforge.serve.api;

import dev.starforge.serve.http.HttpException;
import dev.starforge.text.json.Jackson;
import java.nio.charset.StandardCharsets;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** The API that a route belongs to, which determines the body of error responses. */
public enum Api {
    /** The native API: a list of violations. */
    NATIVE,
    /** OpenAI's API, and APIs with the same errors: one object, whose {@code param} is the first violation. */
    OPENAI;

    byte[] body(InvalidRequestException invalid) {
        return bytes(this == NATIVE ? violations(invalid) : error(invalid));
    }

    private static ObjectNode violations(InvalidRequestException invalid) {
        ObjectNode body = Jackson.object();
        ArrayNode errors = body.putArray("errors");
        for (FieldViolation violation : invalid.violations()) {
            ObjectNode error = errors.addObject();
            error.put("field", violation.field());
            error.put("constraint", violation.constraint());
            error.put("message", violation.message());
            if (violation.hasValue()) {
                error.set("value", violation.value());
            }
        }
        return body;
    }

    private static ObjectNode error(InvalidRequestException invalid) {
        String param = invalid.violations().getFirst().field();
        ObjectNode body = error(400, invalid.code(), String.valueOf(invalid.getMessage()));
        ((ObjectNode) body.get("error")).put("param", param);
        return body;
    }

    static byte[] body(HttpException failure) {
        return bytes(error(failure.status(), failure.code(), failure.text()));
    }

    /** An error object of OpenAI's API. */
    public static ObjectNode error(int status, String code, String message) {
        ObjectNode body = Jackson.object();
        ObjectNode error = body.putObject("error");
        error.put("message", message);
        error.put("type", type(status));
        error.putNull("param");
        error.put("code", code);
        return body;
    }

    private static String type(int status) {
        return switch (status) {
            case 401 -> "authentication_error";
            case 403 -> "permission_error";
            case 404 -> "not_found_error";
            case 429 -> "rate_limit_error";
            case 500, 503, 504 -> "server_error";
            default -> "invalid_request_error";
        };
    }

    public static byte[] bytes(ObjectNode node) {
        return node.toString().getBytes(StandardCharsets.UTF_8);
    }
}
