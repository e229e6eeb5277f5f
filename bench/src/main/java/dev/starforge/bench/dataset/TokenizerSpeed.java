package dev.starforge.bench.dataset;

import dev.starforge.text.TokenBuffer;
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
 * Megabytes of source code per second on one core, for each golden tokenizer: once the words have been seen, and with a
 * new tokenizer for each file. Takes a folder of sources; refuses to time what does not decode to what it was.
 */
final class TokenizerSpeed {
    private static final List<String> NAMES = List.of("starcoder2", "llama3", "qwen2", "llama2");
    private static final long SECONDS = 3;

    private TokenizerSpeed() {}

    static void run(Path folder) throws IOException {
        List<String> texts = new ArrayList<>();
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.filter(f -> f.toString().matches(".*\\.(java|py|c|cpp|rs|go|js|ts)"))
                    .toList()) {
                texts.add(Files.readString(file));
            }
        }
        long bytes = texts.stream()
                .mapToLong(t -> t.getBytes(StandardCharsets.UTF_8).length)
                .sum();
        System.out.printf("%d files, %.2f MB%n", texts.size(), bytes / 1e6);
        for (String name : NAMES) {
            Tokenizer tokenizer = tokenizer(name);
            for (String text : texts) {
                String back = tokenizer.decode(tokenizer.encode(text, false), false);
                if (!back.equals(expected(name, text)) && !hasMarkers(tokenizer, text)) {
                    throw new IllegalStateException(name + ": a text does not come back");
                }
            }
            System.out.printf(
                    "%-12s encode %6.1f MB/s, first time %5.1f MB/s, decode %6.1f MB/s%n",
                    name, encode(tokenizer, texts, bytes), first(name, texts, bytes), decode(tokenizer, texts, bytes));
        }
    }

    private static Tokenizer tokenizer(String name) {
        return Tokenizer.read(Path.of("..", "golden", "tokenizers", name, "tokenizer.json"));
    }

    /** What a text decodes to: Qwen composes characters, and to SentencePiece its mark is a space. */
    private static String expected(String name, String text) {
        return switch (name) {
            case "qwen2" -> java.text.Normalizer.normalize(text, java.text.Normalizer.Form.NFC);
            case "llama2" -> text.replace('\u2581', ' ');
            default -> text;
        };
    }

    /** SentencePiece puts a space after a special token too, and it stays. */
    private static boolean hasMarkers(Tokenizer tokenizer, String text) {
        return tokenizer.addedTokens().stream().anyMatch(token -> text.contains(token.content()));
    }

    private static double encode(Tokenizer tokenizer, List<String> texts, long bytes) {
        TokenBuffer ids = new TokenBuffer();
        return rate(bytes, () -> {
            for (String text : texts) {
                ids.clear();
                tokenizer.encode(text, false, ids);
            }
        });
    }

    /** A new tokenizer for each text: no word has been seen before this text. */
    private static double first(String name, List<String> texts, long bytes) {
        List<Tokenizer> fresh = new ArrayList<>();
        for (int i = 0; i < texts.size(); i++) {
            fresh.add(tokenizer(name));
        }
        TokenBuffer ids = new TokenBuffer();
        long start = System.nanoTime();
        for (int i = 0; i < texts.size(); i++) {
            ids.clear();
            fresh.get(i).encode(texts.get(i), false, ids);
        }
        return bytes * 1e3 / (System.nanoTime() - start);
    }

    private static double decode(Tokenizer tokenizer, List<String> texts, long bytes) {
        int[][] ids = texts.stream().map(t -> tokenizer.encode(t, false)).toArray(int[][]::new);
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
