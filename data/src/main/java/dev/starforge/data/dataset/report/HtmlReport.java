package dev.starforge.data.dataset.report;

import dev.starforge.data.Dataset;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.report.Report;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Writes {@code report.html}, a self-contained page about the dataset as it is on disk; it loads nothing from the network. */
public final class HtmlReport {
    public static final String NAME = "report.html";

    private static final String SCRIPT = "dataset.js";

    private static final int SHOWN_SAMPLES = 30;
    private static final int SHOWN_TOKENS = 4096;
    private static final int BUCKETS = 48;

    private HtmlReport() {}

    public static void write(Path folder, Tokenizer tokenizer) throws IOException {
        JsonNode manifest = Jackson.JSON.readTree(folder.resolve(Dataset.MANIFEST));
        ObjectNode data = Jackson.object();
        data.put("name", manifest.path("repository").path("name").asString());
        data.put("head", manifest.path("repository").path("head").asString());
        data.set("tokenizer", manifest.path("tokenizer"));
        data.set("licenses", manifest.path("licenses"));
        ArrayNode generations = data.putArray("generations");
        manifest.path("generations").forEach(generation -> {
            ObjectNode copy = (ObjectNode) generation.deepCopy();
            copy.remove(List.of("files", "tombstones"));
            generations.add(copy);
        });
        try (Dataset dataset = Dataset.open(folder)) {
            timeline(dataset, data.putObject("timeline"));
            ObjectNode samples = data.putObject("samples");
            for (Split split : Split.values()) {
                samples(dataset, split, tokenizer, samples.putArray(split.label()));
            }
        }
        String page = Report.page("Dataset", data, Report.read(SCRIPT, HtmlReport.class.getResourceAsStream(SCRIPT)));
        Path fresh = folder.resolve(".report.html");
        try {
            Files.writeString(fresh, page);
            Files.move(fresh, folder.resolve(NAME), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException failure) {
            // no report rather than an outdated one; the next run writes it
            Files.deleteIfExists(fresh);
            Files.deleteIfExists(folder.resolve(NAME));
            throw failure;
        }
    }

    /** Tokens of each split in equal intervals of time. */
    private static void timeline(Dataset dataset, ObjectNode out) {
        TreeMap<Long, long[]> byTime = new TreeMap<>();
        for (Split split : Split.values()) {
            TokenDocuments documents = dataset.documents(split);
            for (int d = 0; d < documents.count(); d++) {
                byTime.computeIfAbsent(dataset.origin(split, d).time(), time -> new long[3])[split.ordinal()] +=
                        documents.length(d);
            }
        }
        if (byTime.isEmpty()) {
            return;
        }
        long from = byTime.firstKey();
        long span = Math.max(1, (byTime.lastKey() - from) / BUCKETS + 1);
        long[][] sums = new long[(int) ((byTime.lastKey() - from) / span) + 1][3];
        byTime.forEach((time, tokens) -> {
            for (int split = 0; split < 3; split++) {
                sums[(int) ((time - from) / span)][split] += tokens[split];
            }
        });
        out.put("from", from).put("span", span);
        ArrayNode buckets = out.putArray("buckets");
        for (long[] sum : sums) {
            ArrayNode bucket = buckets.addArray();
            for (long tokens : sum) {
                bucket.add(tokens);
            }
        }
    }

    /** Evenly spaced samples of a split, each as runs of tokens. */
    private static void samples(Dataset dataset, Split split, Tokenizer tokenizer, ArrayNode out) {
        TokenDocuments documents = dataset.documents(split);
        int shown = Math.min(SHOWN_SAMPLES, documents.count());
        for (int i = 0; i < shown; i++) {
            int number = (int) ((long) i * documents.count() / shown);
            TokenDocument document = documents.read(number);
            ObjectNode sample = out.addObject();
            sample.put("id", document.id()).put("tokens", document.ids().length);
            sample.put("time", dataset.origin(split, number).time());
            sample.put("directory", dataset.origin(split, number).directory());
            ArrayNode runs = sample.putArray("runs");
            for (TokenRun run : runs(document, tokenizer, SHOWN_TOKENS)) {
                runs.addArray().add(run.text()).add(run.special() ? 2 : run.counted() ? 1 : 0);
            }
        }
    }

    /** The text of consecutive tokens that all count in the loss or all do not, or of one special token. */
    record TokenRun(String text, boolean counted, boolean special) {}

    static List<TokenRun> runs(TokenDocument document, Tokenizer tokenizer, int max) {
        List<TokenRun> runs = new ArrayList<>();
        int[] ids = document.ids();
        int length = Math.min(max, ids.length);
        for (int from = 0; from < length; ) {
            boolean special = tokenizer.isSpecial(ids[from]);
            int to = from + 1;
            while (!special
                    && to < length
                    && document.counted()[to] == document.counted()[from]
                    && !tokenizer.isSpecial(ids[to])) {
                to++;
            }
            String text = tokenizer.decode(Arrays.copyOfRange(ids, from, to), false);
            runs.add(new TokenRun(text, document.counted()[from], special));
            from = to;
        }
        return runs;
    }
}
