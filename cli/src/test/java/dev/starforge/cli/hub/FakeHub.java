package dev.starforge.cli.hub;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Stream;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** A hub on this machine, with one repository and the faults that a test asks for, one request after another. */
public final class FakeHub implements AutoCloseable {
    public static final String REPO = "someone/tiny";
    static final String COMMIT = "0123456789abcdef0123456789abcdef01234567";

    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Map<String, byte[]> files = new TreeMap<>();
    private final Map<String, Deque<Fault>> faults = new ConcurrentHashMap<>();
    private final Map<String, Long> sizes = new TreeMap<>();
    final List<Seen> seen = new CopyOnWriteArrayList<>();

    record Seen(String path, Optional<String> range, Optional<String> authorization) {}

    /** Answers in the hub's place. */
    interface Fault {
        void answer(HttpExchange exchange, byte[] content) throws IOException;
    }

    public FakeHub() {
        try {
            server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
        server.setExecutor(threads);
        server.createContext("/", this::answer);
        server.start();
    }

    public URI endpoint() {
        return URI.create("http://127.0.0.1:" + server.getAddress().getPort());
    }

    FakeHub with(String name, byte[] content) {
        files.put(name, content);
        return this;
    }

    FakeHub with(String name, String content) {
        return with(name, content.getBytes(StandardCharsets.UTF_8));
    }

    /** All files of a folder. */
    public FakeHub with(Path folder, String... names) throws IOException {
        for (String name : names) {
            with(name, Files.readAllBytes(folder.resolve(name)));
        }
        return this;
    }

    /** The listing says another size than the file has. */
    FakeHub lyingAbout(String name, long size) {
        sizes.put(name, size);
        return this;
    }

    /** The next requests for a path, which may be a file's name or {@code listing}, are answered so. */
    FakeHub failing(String name, Fault... next) {
        faults.computeIfAbsent(name, key -> new ArrayDeque<>()).addAll(List.of(next));
        return this;
    }

    static Fault status(int code, String... headers) {
        return (exchange, content) -> {
            for (int i = 0; i < headers.length; i += 2) {
                exchange.getResponseHeaders().set(headers[i], headers[i + 1]);
            }
            exchange.sendResponseHeaders(code, -1);
            exchange.close();
        };
    }

    /** Promises all of it, and hangs up after some bytes. */
    static Fault cutAfter(int bytes) {
        return (exchange, content) -> {
            exchange.sendResponseHeaders(200, content.length);
            OutputStream out = exchange.getResponseBody();
            out.write(content, 0, bytes);
            out.flush();
            exchange.close();
        };
    }

    /** Sends some bytes, and then nothing for long. */
    static Fault silentAfter(int bytes) {
        return (exchange, content) -> {
            exchange.sendResponseHeaders(200, content.length);
            OutputStream out = exchange.getResponseBody();
            out.write(content, 0, bytes);
            out.flush();
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException closed) {
                exchange.close();
            }
        };
    }

    /** Other bytes than those that were promised. */
    static Fault instead(byte... other) {
        return (exchange, content) -> {
            exchange.sendResponseHeaders(200, other.length);
            exchange.getResponseBody().write(other);
            exchange.close();
        };
    }

    private void answer(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        seen.add(new Seen(
                path,
                Optional.ofNullable(exchange.getRequestHeaders().getFirst("Range")),
                Optional.ofNullable(exchange.getRequestHeaders().getFirst("Authorization"))));
        try (InputStream in = exchange.getRequestBody()) {
            in.readAllBytes();
        }
        String prefix = "/" + REPO + "/resolve/" + COMMIT + "/";
        String name = path.startsWith(prefix) ? path.substring(prefix.length()) : "listing";
        Deque<Fault> waiting = faults.getOrDefault(name, new ArrayDeque<>());
        Fault fault;
        synchronized (waiting) {
            fault = waiting.poll();
        }
        byte[] content = files.getOrDefault(name, new byte[0]);
        if (fault != null) {
            fault.answer(exchange, content);
        } else if (path.equals("/api/models/" + REPO + "/revision/main")) {
            instead(listing()).answer(exchange, content);
        } else if (files.containsKey(name)) {
            file(exchange, content);
        } else {
            status(404).answer(exchange, content);
        }
    }

    private static void file(HttpExchange exchange, byte[] content) throws IOException {
        String range = exchange.getRequestHeaders().getFirst("Range");
        int from = range == null ? 0 : Integer.parseInt(range.replaceAll("\\D", ""));
        if (range != null) {
            exchange.getResponseHeaders()
                    .set("Content-Range", "bytes " + from + "-" + (content.length - 1) + "/" + content.length);
        }
        exchange.sendResponseHeaders(range == null ? 200 : 206, content.length == 0 ? -1 : content.length - from);
        exchange.getResponseBody().write(content, from, content.length - from);
        exchange.close();
    }

    private byte[] listing() {
        ObjectNode json = new JsonMapper().createObjectNode().put("sha", COMMIT);
        files.forEach((name, content) -> {
            ObjectNode file = json.withArray("siblings").addObject();
            file.put("rfilename", name).put("size", sizes.getOrDefault(name, (long) content.length));
            if (Stream.of(".safetensors", ".gguf", ".bin").anyMatch(name::endsWith)) {
                file.putObject("lfs").put("sha256", hash("SHA-256", content));
            } else {
                byte[] head = ("blob " + content.length + "\0").getBytes(StandardCharsets.US_ASCII);
                byte[] blob = Arrays.copyOf(head, head.length + content.length);
                System.arraycopy(content, 0, blob, head.length, content.length);
                file.put("blobId", hash("SHA-1", blob));
            }
        });
        return json.toString().getBytes(StandardCharsets.UTF_8);
    }

    static String hash(String algorithm, byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance(algorithm).digest(bytes));
        } catch (NoSuchAlgorithmException missing) {
            throw new IllegalStateException(missing);
        }
    }

    /** The requests for a file. */
    List<Seen> requests(String name) {
        return seen.stream().filter(each -> each.path().endsWith("/" + name)).toList();
    }

    @Override
    public void close() {
        threads.shutdownNow();
        server.stop(0);
    }
}
