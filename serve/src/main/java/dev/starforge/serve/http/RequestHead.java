package dev.starforge.serve.http;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * A request line with its headers, parsed as strictly as RFC 9112 allows: what two parsers could read differently (a bare line feed, a
 * folded header, two different lengths) is rejected, because it enables request smuggling.
 *
 * @param path without the query
 * @param minor minor version of HTTP/1.x
 * @param headers by lower-case name
 */
public record RequestHead(String method, String path, String query, int minor, Map<String, List<String>> headers) {
    private static final String TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    static RequestHead parse(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.ISO_8859_1);
        String[] lines = text.split("\r\n", -1);
        for (String line : lines) {
            checkLine(line);
        }
        String[] words = lines[0].split(" ", -1);
        if (words.length != 3 || !isToken(words[0])) {
            throw malformed("expected METHOD PATH HTTP/1.1 in the first line");
        }
        if (!words[2].equals("HTTP/1.1") && !words[2].equals("HTTP/1.0")) {
            throw words[2].startsWith("HTTP/")
                    ? new HttpException(505, "version_not_supported", "expected HTTP/1.1")
                    : malformed("expected METHOD PATH HTTP/1.1 in the first line");
        }
        Map<String, List<String>> headers = new HashMap<>();
        for (int i = 1; i < lines.length; i++) {
            int colon = checkField(lines[i]);
            headers.computeIfAbsent(lines[i].substring(0, colon).toLowerCase(Locale.ROOT), _ -> new ArrayList<>())
                    .add(lines[i].substring(colon + 1).strip());
        }
        String target = origin(words[1]);
        int question = target.indexOf('?');
        int minor = words[2].charAt(words[2].length() - 1) - '0';
        if (minor == 1 && headers.getOrDefault("host", List.of()).size() != 1) {
            throw malformed("expected one Host header");
        }
        return new RequestHead(
                words[0],
                question < 0 ? target : target.substring(0, question),
                question < 0 ? "" : target.substring(question + 1),
                minor,
                Map.copyOf(headers));
    }

    /** Rejects a line with a control character, such as a bare line feed; returns the line. */
    static String checkLine(String line) {
        if (line.chars().anyMatch(c -> c < ' ' && c != '\t' || c == 0x7f)) {
            throw malformed("a control character in a line of the request");
        }
        return line;
    }

    /** Rejects a line that is not a header; returns the index of its colon. */
    static int checkField(String line) {
        int colon = line.indexOf(':');
        if (colon < 1 || !isToken(line.substring(0, colon))) {
            throw malformed("expected NAME: VALUE in a header");
        }
        return colon;
    }

    /** The path of a request target, which may be in absolute form. */
    private static String origin(String target) {
        if (target.startsWith("/")) {
            return target;
        }
        if (target.startsWith("http://")) {
            int slash = target.indexOf('/', "http://".length());
            return slash < 0 ? "/" : target.substring(slash);
        }
        throw malformed("expected a path that begins with /");
    }

    private static boolean isToken(String word) {
        return !word.isEmpty() && word.chars().allMatch(c -> TOKEN.indexOf(c) >= 0);
    }

    static HttpException malformed(String what) {
        return new HttpException(400, "malformed_request", "malformed request: " + what);
    }

    /** The first value of a header. */
    public Optional<String> header(String name) {
        return headers.getOrDefault(name, List.of()).stream().findFirst();
    }

    /** Returns true if a comma-separated header such as {@code Connection} contains a word. */
    boolean lists(String name, String word) {
        return headers.getOrDefault(name, List.of()).stream()
                .flatMap(value -> List.of(value.split(",")).stream())
                .anyMatch(item -> item.strip().equalsIgnoreCase(word));
    }

    /** Returns true for HEAD: the response has no body. */
    boolean isForHead() {
        return method.equals("HEAD");
    }

    /** Returns true for GET and HEAD, whose requests have no body. */
    boolean isForReading() {
        return method.equals("GET") || isForHead();
    }

    boolean keepsAlive() {
        return minor == 1 && !lists("connection", "close");
    }

    boolean isChunked() {
        List<String> codings = headers.getOrDefault("transfer-encoding", List.of());
        if (codings.isEmpty()) {
            return false;
        }
        if (headers.containsKey("content-length")) {
            throw malformed("both Content-Length and Transfer-Encoding");
        }
        if (codings.size() != 1 || !codings.getFirst().equalsIgnoreCase("chunked") || minor == 0) {
            throw new HttpException(501, "transfer_encoding", "expected Transfer-Encoding: chunked, or none");
        }
        return true;
    }

    /** The Content-Length; 0 if there is none. */
    long length() {
        List<String> lengths = headers.getOrDefault("content-length", List.of());
        if (lengths.isEmpty()) {
            return 0;
        }
        String first = lengths.getFirst();
        boolean plain = first.length() <= 18 && first.chars().allMatch(c -> c >= '0' && c <= '9');
        if (first.isEmpty() || !plain || lengths.stream().anyMatch(other -> !other.equals(first))) {
            throw malformed("expected one Content-Length of digits");
        }
        return Long.parseLong(first);
    }
}
