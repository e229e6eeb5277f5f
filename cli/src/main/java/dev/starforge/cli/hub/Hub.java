package dev.starforge.cli.hub;

import dev.starforge.text.ErrorMessage;
import java.io.IOException;
import java.io.InputStream;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** HF's hub, or another with its addresses. */
public final class Hub {
    private static final int LARGEST_LISTING = 64 << 20;

    private final URI endpoint;
    private final boolean hasToken;
    private final Timeouts timeouts;
    private final Consumer<String> notices;
    private final HubConnection connection;

    /**
     * How long to wait for what.
     *
     * @param attempts requests for the same bytes, one after another
     * @param connect until a name is resolved, and until its host is connected
     * @param answer until a host that is connected begins to answer
     * @param stall the longest silence of a server in the middle of a file, and the longest time for a listing
     * @param longest wait that a server may ask for
     */
    public record Timeouts(
            int attempts, Duration connect, Duration answer, Duration stall, Duration first, Duration longest) {
        public static final Timeouts DEFAULT = new Timeouts(
                6,
                Duration.ofSeconds(5),
                Duration.ofSeconds(15),
                Duration.ofSeconds(60),
                Duration.ofSeconds(1),
                Duration.ofMinutes(5));
    }

    /** The files of a repository at one commit. */
    public record Listing(String commit, List<HubFile> files) {}

    /** @param notices receives a line for each wait that a user should know of */
    public Hub(
            URI endpoint, Optional<String> token, ProxySelector proxies, Timeouts timeouts, Consumer<String> notices) {
        this.endpoint = endpoint;
        this.hasToken = token.isPresent();
        this.timeouts = timeouts;
        this.notices = notices;
        this.connection = new HubConnection(endpoint, token, proxies, timeouts);
    }

    URI endpoint() {
        return endpoint;
    }

    Timeouts timeouts() {
        return timeouts;
    }

    /** Requests the list of files. Only a server that asks for a later request gets another one. */
    Listing list(ModelId id) {
        URI address = URI.create(endpoint + "/api/models/" + id.repo() + "/revision/"
                + URLEncoder.encode(id.revision(), StandardCharsets.UTF_8) + "?blobs=true");
        notices.accept("connecting to " + connection.route(address) + " ...");
        for (int attempt = 1; ; attempt++) {
            try (Answer answer = get(id, address, 0)) {
                return listing(id, new JsonMapper().readTree(new String(body(answer), StandardCharsets.UTF_8)));
            } catch (JacksonException wrong) {
                throw new HubException(
                        address + ": invalid JSON (" + wrong.getOriginalMessage()
                                + "); check that the endpoint is a model hub",
                        wrong);
            } catch (HubConnection.Unreachable unreachable) {
                throw new HubException(unreachable.getMessage() + NetworkFailure.ADVICE, unreachable);
            } catch (Later busy) {
                waitFor(attempt, address.toString(), busy);
            } catch (IOException failure) {
                throw new HubException(address + ": " + ErrorMessage.of(failure), failure);
            }
        }
    }

    /** Reads a listing; a server that takes longer than {@code stall} for it is cut off. */
    private byte[] body(Answer answer) throws IOException {
        AtomicBoolean late = new AtomicBoolean();
        Thread timer = Thread.ofVirtual().start(() -> {
            try {
                Thread.sleep(timeouts.stall());
                late.set(true);
                answer.close();
            } catch (InterruptedException | IOException done) {
                return;
            }
        });
        try {
            return answer.body().readNBytes(LARGEST_LISTING);
        } catch (IOException failure) {
            throw late.get()
                    ? new IOException(
                            "the listing took longer than " + timeouts.stall().toSeconds() + " s", failure)
                    : failure;
        } finally {
            timer.interrupt();
        }
    }

    private static Listing listing(ModelId id, JsonNode json) {
        String commit = json.path("sha").stringValue("");
        if (!commit.matches("[0-9a-f]{40}")) {
            throw new HubException(id + ": expected a commit, got '" + HubConnection.shown(commit) + "'");
        }
        List<HubFile> files = new ArrayList<>();
        for (JsonNode file : json.path("siblings")) {
            String sha256 = file.path("lfs").path("sha256").stringValue("");
            files.add(new HubFile(
                    file.path("rfilename").stringValue(""),
                    file.path("size").longValue(-1),
                    sha256.isEmpty()
                            ? new HubFile.Hash(true, file.path("blobId").stringValue(""))
                            : new HubFile.Hash(false, sha256)));
        }
        return new Listing(commit, List.copyOf(files));
    }

    /** A file's content from a byte on; the server may begin at its start all the same. */
    Answer open(ModelId id, String commit, HubFile file, long from) throws IOException {
        String path = Stream.of(file.name().split("/", -1))
                .map(part -> URLEncoder.encode(part, StandardCharsets.UTF_8).replace("+", "%20"))
                .collect(Collectors.joining("/"));
        return get(id, URI.create(endpoint + "/" + id.repo() + "/resolve/" + commit + "/" + path), from);
    }

    /** An answer with a body to read. */
    record Answer(HttpResponse<InputStream> response) implements AutoCloseable {
        InputStream body() {
            return response.body();
        }

        /** The first byte of the file that the body begins with. */
        long begin() {
            return response.statusCode() != 206
                    ? 0
                    : response.headers()
                            .firstValue("Content-Range")
                            .filter(range -> range.matches("bytes \\d{1,18}-.*"))
                            .map(range -> Long.parseLong(range.substring(6, range.indexOf('-'))))
                            .orElse(-1L);
        }

        @Override
        public void close() throws IOException {
            body().close();
        }
    }

    private Answer get(ModelId id, URI address, long from) throws IOException {
        HubConnection.Reply reply = connection.get(address, from);
        int status = reply.response().statusCode();
        if (status != 200 && status != 206) {
            reply.response().body().close();
            throw refusal(id, reply.address(), reply.response());
        }
        return new Answer(reply.response());
    }

    /** The server's word that it may go better later. */
    static final class Later extends IOException {
        private static final long serialVersionUID = 1;
        private final transient Optional<Duration> after;

        Later(String message, Optional<Duration> after) {
            super(message);
            this.after = after;
        }
    }

    private IOException refusal(ModelId id, URI address, HttpResponse<?> response) {
        int status = response.statusCode();
        String page = endpoint + "/" + id.repo();
        switch (status) {
            case 401, 403 ->
                throw new HubException(id + ": HTTP status " + status + ". Accept the conditions at " + page
                        + ", if any, and "
                        + (hasToken
                                ? "set HF_TOKEN to a token with read access"
                                : "set HF_TOKEN to a token from " + endpoint + "/settings/tokens"));
            case 407 ->
                throw new HubException(
                        address + ": the proxy asks for a password, which is not supported (HTTP status 407)");
            case 404 ->
                throw new HubException(address + ": model, revision or file not found; see " + page
                        + " (private models require HF_TOKEN)");
            case 416 -> {
                return new IOException(address + ": the file on the server is shorter than the partial download");
            }
            default -> {
                if (status != 429 && status < 500) {
                    throw new HubException(address + ": expected 200, got " + status);
                }
                return new Later(address + ": HTTP status " + status, retryAfter(response));
            }
        }
    }

    private static Optional<Duration> retryAfter(HttpResponse<?> response) {
        return response.headers().firstValue("Retry-After").flatMap(value -> {
            try {
                return Optional.of(
                        value.matches("\\d{1,9}")
                                ? Duration.ofSeconds(Long.parseLong(value))
                                : Duration.between(
                                        Instant.now(),
                                        ZonedDateTime.parse(value, DateTimeFormatter.RFC_1123_DATE_TIME)));
            } catch (DateTimeParseException unreadable) {
                return Optional.empty();
            }
        });
    }

    /** Sleeps before another attempt, as long as the server asked for, or twice as long each time; throws after the last one. */
    void waitFor(int attempt, String what, IOException failure) {
        Optional<Duration> asked = failure instanceof Later later ? later.after : Optional.empty();
        Duration pause = asked.orElse(timeouts.first().multipliedBy(1L << Math.min(attempt - 1, 5)));
        if (attempt >= timeouts.attempts() || pause.compareTo(timeouts.longest()) > 0) {
            throw new HubException(
                    what + ": failed after " + attempt + (attempt == 1 ? " attempt: " : " attempts: ")
                            + ErrorMessage.of(failure)
                            + (asked.isPresent() ? "; the server requests a pause of " + pause.toSeconds() + " s" : "")
                            + "; run the same command again to resume",
                    failure);
        }
        notices.accept(what + ": " + ErrorMessage.of(failure) + "; attempt " + (attempt + 1) + " of "
                + timeouts.attempts() + " in " + Math.max(0, pause.toSeconds()) + " s");
        try {
            Thread.sleep(pause.isNegative() ? Duration.ZERO : pause);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new HubException(what + ": interrupted", interrupted);
        }
    }
}
