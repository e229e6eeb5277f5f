package dev.starforge.serve.pool.proxy;

import java.io.IOException;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Status and headers of a worker's response. Rejects what two parsers could read differently. The pool writes its own head to the client;
 * of the worker's headers it uses only {@link #contentType} and {@link #retryAfter}.
 *
 * @param headers by lower-case names
 */
record ResponseHead(int status, Map<String, String> headers) {
    private static final Pattern STATUS = Pattern.compile("HTTP/1\\.[01] ([2-5][0-9][0-9])( .*)?");
    private static final Pattern HEADER = Pattern.compile("([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*");
    private static final Pattern TYPE = Pattern.compile("[!-~][ -~]{0,255}");

    static Builder ofStatusLine(String line) throws IOException {
        Matcher status = STATUS.matcher(line);
        if (!status.matches()) {
            throw WorkerConnection.malformed("HTTP/1.1 and a status from 200");
        }
        return new Builder(Integer.parseInt(status.group(1)));
    }

    /** Collects the headers. */
    static final class Builder {
        private final int status;
        private final Map<String, String> headers = new HashMap<>();

        private Builder(int status) {
            this.status = status;
        }

        void add(String line) throws IOException {
            Matcher header = HEADER.matcher(line);
            if (!header.matches()) {
                throw WorkerConnection.malformed("NAME: VALUE as a header");
            }
            String name = header.group(1).toLowerCase(Locale.ROOT);
            String before = headers.putIfAbsent(name, header.group(2));
            boolean frames = name.equals("content-length") || name.equals("transfer-encoding");
            if (before != null && (frames || name.equals("content-type"))) {
                throw WorkerConnection.malformed("one header " + name);
            }
        }

        ResponseHead build() throws IOException {
            String coding = headers.getOrDefault("transfer-encoding", "chunked");
            if (!coding.equalsIgnoreCase("chunked")) {
                throw WorkerConnection.malformed("Transfer-Encoding: chunked or none");
            }
            if (headers.containsKey("transfer-encoding") && headers.containsKey("content-length")) {
                throw WorkerConnection.malformed("Content-Length or Transfer-Encoding, not both");
            }
            if (!headers.getOrDefault("content-length", "0").matches("[0-9]{1,18}")) {
                throw WorkerConnection.malformed("a Content-Length of digits");
            }
            return new ResponseHead(status, Map.copyOf(headers));
        }
    }

    boolean isChunked() {
        return headers.containsKey("transfer-encoding");
    }

    /** Returns true if the worker closes the connection after this response. */
    boolean closes() {
        return headers.getOrDefault("connection", "").equalsIgnoreCase("close");
    }

    /** Returns false for a status whose response ends with its head. */
    boolean hasBody() {
        return status != 204 && status != 304;
    }

    /** The Content-Length; empty if the body is chunked or ends with the connection. */
    OptionalLong length() {
        String length = headers.get("content-length");
        return length == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(length));
    }

    /** The media type; that of unknown bytes if it is not printable ASCII. */
    String contentType() {
        return Optional.ofNullable(headers.get("content-type"))
                .filter(type -> TYPE.matcher(type).matches())
                .orElse("application/octet-stream");
    }

    /** Seconds after which the client may retry. */
    Optional<String> retryAfter() {
        return Optional.ofNullable(headers.get("retry-after")).filter(value -> value.matches("[0-9]{1,9}"));
    }

    /** Returns true for a response that is relayed part by part; an error has a whole body, whatever its type. */
    boolean isStreamed() {
        return status == 200 && isChunked();
    }

    /** Returns true for events, which are relayed one by one. */
    boolean isEventStream() {
        return isStreamed() && contentType().startsWith("text/event-stream");
    }
}
