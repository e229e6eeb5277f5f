package dev.starforge.bench.dataset;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/**
 * MB/s of source code on one core for each golden tokenizer: with a warm cache, and with a new tokenizer for each file. Fails if a file
 * does not decode to its original.
 */
final class TokenizerSpeed {
    private static final List<String> NAMES = List.of("starcoder2", "llama3", "qwen2", "llama2");
    private static final long SECONDS = 3;

    private TokenizerSpeed() {}

    static void run(Path folder) throws IOException {
        List<String> files = new ArrayList<>();
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path file : paths.filter(f -> f.toString().matches(".*\\.(java|py|c|cpp|rs|go|js|ts)"))
                    .toList()) {
                files.add(Files.readString(file));
            }
        }
        long bytes = files.stream()
                .mapToLong(t -> t.getBytes(StandardCharsets.UTF_8).length)
                .sum();
        System.out.printf("%d files, %.2f MB%n", files.size(), bytes / 1e6);
        for (String name : NAMES) {
            Tokenizer tokenizer = tokenizer(name);
            for (String file : files) {
                String back = tokenizer.decode(tokenizer.encode(file, false), false);
                if (!back.equals(expected(name, file)) && !hasMarkers(tokenizer, file)) {
                    throw new IllegalStateException(name + ": a file does not decode to its original");
                }
            }
            System.out.printf(
                    "%-12s encode %6.1f MB/s, first time %5.1f MB/s, decode %6.1f MB/s%n",
                    name, encode(tokenizer, files, bytes), first(name, files, bytes), decode(tokenizer, files, bytes));
        }
    }

    private static Tokenizer tokenizer(String name) {
        return Tokenizer.read(Path.of("..", "golden", "tokenizers", name, "tokenizer.json"));
    }

    /** The expected result of decoding: Qwen normalizes to NFC, and SentencePiece decodes its marker as a space. */
    private static String expected(String name, String text) {
        return switch (name) {
            case "qwen2" -> java.text.Normalizer.normalize(text, java.text.Normalizer.Form.NFC);
            case "llama2" -> text.replace('\u2581', ' ');
            default -> text;
        };
    }

    /** SentencePiece also adds a space after a special token, which decoding keeps. */
    private static boolean hasMarkers(Tokenizer tokenizer, String text) {
        return tokenizer.addedTokens().stream().anyMatch(token -> text.contains(token.content()));
    }

    private static double encode(Tokenizer tokenizer, List<String> files, long bytes) {
        TokenIdList ids = new TokenIdList();
        return rate(bytes, () -> {
            for (String file : files) {
                ids.clear();
                tokenizer.encode(file, false, ids);
            }
        });
    }

    /** Encodes each file with a new tokenizer, whose cache is empty. */
    private static double first(String name, List<String> files, long bytes) {
        List<Tokenizer> fresh = new ArrayList<>();
        for (int i = 0; i < files.size(); i++) {
            fresh.add(tokenizer(name));
        }
        TokenIdList ids = new TokenIdList();
        long start = System.nanoTime();
        for (int i = 0; i < files.size(); i++) {
            ids.clear();
            fresh.get(i).encode(files.get(i), false, ids);
        }
        return bytes * 1e3 / (System.nanoTime() - start);
    }

    private static double decode(Tokenizer tokenizer, List<String> files, long bytes) {
        int[][] ids = files.stream().map(t -> tokenizer.encode(t, false)).toArray(int[][]::new);
        return rate(bytes, () -> Arrays.stream(ids).forEach(i -> tokenizer.decode(i, false)));
    }

    private static double rate(long bytes, Runnable run) {
        double best = 0;
        for (long end = System.nanoTime() + SECONDS * 1_000_000_000; System.nanoTime() < end; ) {
            long start = System.nanoTime();
            run.run();
            best = Math.max(best, bytes * 1e3 / (System.nanoTime() - start));
        }
        return best;
    }
}
