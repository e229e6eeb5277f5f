package dev.starforge.bench.serve;

import dev.starforge.serve.FakeEngine;
import dev.starforge.serve.Fixture;
import dev.starforge.serve.RawClient;
import dev.starforge.serve.http.HttpLimits;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/**
 * Sends seeded mutations of every kind of request over real sockets. Each must be answered with an expected status, or its connection
 * must end. No request may hang, cause an internal error or leak a sequence or connection, and the worker must serve afterwards.
 */
final class RequestFuzz {
    private static final Set<Integer> EXPECTED_STATUSES =
            Set.of(200, 202, 400, 403, 404, 405, 408, 413, 417, 429, 431, 501, 503, 505);
    private static final int CLIENTS = 32;
    private static final String[] WORDS = {
        "1e999",
        "-1",
        "99999999999999999999",
        "NaN",
        "null",
        "[]",
        "{}",
        "\"\"",
        "\\u0000",
        "\\ud800",
        "true",
        "1.5",
        "0x1",
        "[[[[",
        "\"stream\":true,",
        "\"n\":16,",
        "\"max_tokens\":4096,",
        "\"stop\":[\"\"],",
        "\"suffix\":\"x\",",
        "\"logprobs\":3,",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\0",
        ": ",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\n",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n",
        " HTTP/1.0",
        "é",
        "%00",
        "../",
        "?"
    };
    private static final String[] VALUES = {
        "1e999",
        "-1",
        "0",
        "1",
        "2",
        "0.5",
        "99999999999999999999",
        "null",
        "true",
        "false",
        "[]",
        "{}",
        "\"\"",
        "\"x\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "[1,2]",
        "[\"a\"]",
        "[[1]]",
        "{\"a\":1}",
        "4096",
        "1.5",
        "\"fake\"",
        "\"鱼🙂\""
    };
    private static final Pattern VALUE =
            Pattern.compile("(?<=[:\\[,])(?:\"[^\"]*\"|[-0-9.]+|true|false|\\[[^\\[\\]]*])(?=[,}\\]])");
    private static final List<String[]> SEEDS = List.of(
            new String[] {
                "POST",
                "/execute",
                "{'job_id':'j','prompt':'x','max_tokens':5,'temperature':0.5,'seed':1,'stop':['a','b']}"
            },
            new String[] {
                "POST",
                "/execute",
                "{'job_id':'j','prompt_tokens':[1,2,3],'max_tokens':5,'top_p':0.5,'top_k':3,'min_p':0.1}"
            },
            new String[] {"POST", "/cancel", "{'job_id':'j'}"},
            new String[] {"GET", "/health", ""},
            new String[] {"GET", "/health/deep", ""},
            new String[] {"GET", "/metrics", ""},
            new String[] {"GET", "/v1/models/fake", ""},
            new String[] {
                "POST",
                "/v1/completions",
                "{'model':'fake','prompt':['a','b'],'n':2,'logprobs':2,'stream':true,'stream_options':{'include_usage':true}}"
            },
            new String[] {"POST", "/v1/completions", "{'prompt':'def f(','suffix':')','max_tokens':8,'echo':true}"},
            new String[] {
                "POST",
                "/v1/chat/completions",
                "{'messages':[{'role':'user','content':[{'type':'text','text':'x'}]}],'max_tokens':5,'logprobs':true}"
            },
            new String[] {"POST", "/v1/embeddings", "{'input':['a',''],'encoding_format':'base64'}"},
            new String[] {
                "POST",
                "/infill",
                "{'input_prefix':'a','input_suffix':'b','input_extra':[{'filename':'f','text':'t'}],'n_predict':5,'n_cmpl':2,'samplers':['top_k'],'response_fields':['content']}"
            },
            new String[] {"POST", "/tokenize", "{'content':'some text','with_pieces':true}"},
            new String[] {"POST", "/detokenize", "{'tokens':[5,6,7]}"},
            new String[] {"POST", "/v1/load_lora_adapter", "{'lora_name':'x','lora_path':'y'}"});

    private RequestFuzz() {}

    /** Returns the number of requests by outcome. */
    static Map<String, Integer> run(int cases, long seed) throws Exception {
        Duration moment = Duration.ofMillis(100);
        HttpLimits limits = HttpLimits.DEFAULT.withTimes(moment, moment, moment, Duration.ofSeconds(5));
        Map<String, Integer> outcomes = new ConcurrentSkipListMap<>();
        try (Fixture fixture = new Fixture(new FakeEngine(), options -> options.withLimits(limits, 256));
                ExecutorService clients = Executors.newFixedThreadPool(CLIENTS)) {
            AtomicInteger next = new AtomicInteger();
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < CLIENTS; i++) {
                running.add(clients.submit(() -> {
                    for (int at = next.getAndIncrement(); at < cases; at = next.getAndIncrement()) {
                        outcomes.merge(one(fixture, seed + at), 1, Integer::sum);
                    }
                    return "";
                }));
            }
            for (Future<?> client : running) {
                client.get();
            }
            Fixture.await("all sequences have ended", () -> fixture.engine.live() == 0);
            Fixture.await("all connections have ended", () -> fixture.worker.connections() == 0);
            List<String> failed = fixture.log.stream()
                    .filter(line -> line.contains("failed inside"))
                    .toList();
            if (!failed.isEmpty()) {
                throw new AssertionError(failed.size() + " requests failed inside, the first: " + failed.getFirst());
            }
            if (fixture.post("/v1/completions", "{'prompt':'x','max_tokens':5}").status() != 200) {
                throw new AssertionError("the worker does not serve afterwards");
            }
        }
        return new TreeMap<>(outcomes);
    }

    private static String one(Fixture fixture, long seed) throws IOException {
        byte[] request = mutant(new Random(seed));
        try (RawClient client = fixture.raw()) {
            client.socket().getOutputStream().write(request);
            RawClient.Reply reply = client.reply();
            if (reply.status() == 100) {
                reply = client.reply();
            }
            if (!EXPECTED_STATUSES.contains(reply.status())) {
                throw new AssertionError("seed " + seed + ": status " + reply.status() + " to "
                        + new String(request, StandardCharsets.ISO_8859_1));
            }
            return Integer.toString(reply.status());
        } catch (EOFException | SocketException ended) {
            return "ended";
        } catch (IOException | RuntimeException wrong) {
            throw new AssertionError("seed " + seed + ": " + new String(request, StandardCharsets.ISO_8859_1), wrong);
        }
    }

    static byte[] mutant(Random random) {
        String[] seed = SEEDS.get(random.nextInt(SEEDS.size()));
        byte[] body = Fixture.quoted(seed[2]).getBytes(StandardCharsets.UTF_8);
        boolean inBody = body.length > 0 && random.nextInt(4) > 0;
        boolean byValue = random.nextBoolean();
        for (int i = random.nextInt(4); inBody && i >= 0; i--) {
            body = byValue ? otherValue(body, random) : mutated(body, random);
        }
        String head = seed[0] + " " + seed[1]
                + " HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Correlation-ID: a\r\nContent-Length: " + body.length + "\r\n\r\n";
        byte[] bytes = joined(head.getBytes(StandardCharsets.ISO_8859_1), body);
        for (int i = random.nextInt(4); !inBody && i >= 0; i--) {
            bytes = mutated(bytes, random);
        }
        return bytes;
    }

    /** Replaces one value of the JSON, so that the request passes the parser. */
    private static byte[] otherValue(byte[] body, Random random) {
        String json = new String(body, StandardCharsets.UTF_8);
        List<MatchResult> places = VALUE.matcher(json).results().toList();
        if (places.isEmpty()) {
            return body;
        }
        MatchResult place = places.get(random.nextInt(places.size()));
        String value = VALUES[random.nextInt(VALUES.length)];
        return (json.substring(0, place.start()) + value + json.substring(place.end()))
                .getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] mutated(byte[] bytes, Random random) {
        if (bytes.length == 0) {
            return bytes;
        }
        int from = random.nextInt(bytes.length);
        int to = Math.min(bytes.length, from + 1 + random.nextInt(12));
        byte[] before = Arrays.copyOf(bytes, from);
        byte[] after = Arrays.copyOfRange(bytes, to, bytes.length);
        byte[] part = Arrays.copyOfRange(bytes, from, to);
        return switch (random.nextInt(6)) {
            case 0 -> joined(before, after);
            case 1 -> joined(before, part, part, after);
            case 2 -> before;
            case 3 -> {
                part[0] = (byte) random.nextInt(256);
                yield joined(before, part, after);
            }
            case 4 -> joined(before, WORDS[random.nextInt(WORDS.length)].getBytes(StandardCharsets.UTF_8), after);
            default ->
                joined(before, WORDS[random.nextInt(WORDS.length)].getBytes(StandardCharsets.UTF_8), part, after);
        };
    }

    private static byte[] joined(byte[]... parts) {
        int length = 0;
        for (byte[] part : parts) {
            length += part.length;
        }
        byte[] all = new byte[length];
        int at = 0;
        for (byte[] part : parts) {
            System.arraycopy(part, 0, all, at, part.length);
            at += part.length;
        }
        return all;
    }
}
