package dev.starforge.train;

import dev.starforge.data.Nearest;
import dev.starforge.data.TokenDocuments;
import dev.starforge.data.Tokenizer;
import dev.starforge.model.Generator;
import dev.starforge.model.LoraAdapter;
import dev.starforge.model.Model;
import dev.starforge.model.ModelFiles;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Consumer;
import java.util.function.IntPredicate;
import java.util.function.LongSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * How good a model is on documents it has not seen: perplexity and bits per byte of what counts; the next line; a line or a
 * block between its surroundings; whether what it makes of some prompts fits their grammar. With an adapter, base and tuned
 * side by side, each figure with an interval. Plain statistics of bytes and a compressor give the scale.
 */
public final class Evaluation {
    private static final Pattern IDENTIFIER = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");
    private static final int LINE_TOKENS = 64;
    private static final int BLOCK_TOKENS = 192;
    private static final int LONGEST_STATISTICS = 4 << 20;

    private final Setup setup;
    private final Tokenizer tokenizer;
    private final Optional<FimTokens> fim;

    /**
     * @param samples how many lines and blocks are written, each
     * @param said told what is being done
     */
    public record Setup(
            RunConfig config,
            Path model,
            Optional<Path> adapter,
            Tokenizer tokenizer,
            Device device,
            Precision precision,
            Fallback fallback,
            String split,
            int samples,
            Outside outside,
            LongSupplier nanoTime,
            Consumer<String> said) {}

    /** Programs that are not part of this one; what is not at hand answers nothing, and is reported as not measured. */
    public interface Outside {
        /** How many places of a text do not fit a grammar. */
        OptionalInt errors(String grammar, String text);

        /** Bytes that {@code xz -9} makes of a text. */
        OptionalLong xz(byte[] text);
    }

    public Evaluation(Setup setup) {
        this.setup = setup;
        this.tokenizer = setup.tokenizer();
        this.fim = FimTokens.of(tokenizer);
    }

    /** A place in a document: what is before, what is to be written, what comes after. */
    private record Hole(String before, String middle, String after) {}

    /** Nats and bytes of every document. */
    private record Likelihood(double[] nats, double[] bytes, double[] tokens) {}

    private record Results(Likelihood likelihood, Map<String, Written> written, List<Continued> continued) {}

    /** What a model made of a prompt; {@code parses} is empty where no grammar could be asked. */
    private record Continued(String text, Optional<Boolean> parses) {}

    /** What became of each hole. */
    private record Written(double[] exact, double[] similarity, double[] identifiers) {}

    public ObjectNode run() {
        ObjectNode report = new JsonMapper().createObjectNode();
        try (ModelFiles files = ModelFiles.open(setup.model());
                Sources sources = Sources.open(
                        setup.config(),
                        setup.model(),
                        Subject.shapes(files, setup.device()).vocabulary(),
                        Optional.of(tokenizer))) {
            Model.Facts facts = Subject.shapes(files, setup.device());
            TokenDocuments documents = setup.split().equals("test") ? sources.test() : sources.validation();
            if (documents.count() == 0) {
                throw Sources.empty(setup.config(), setup.split().equals("test") ? Keys.TEST : Keys.VALIDATION);
            }
            int context = Math.min(setup.config().get(Keys.CONTEXT), facts.context());
            Corpus corpus =
                    new Corpus(documents, facts.vocabulary(), document -> 1, Corpus.Settings.plain(context, fim));
            if (corpus.windows() == 0) {
                throw setup.config()
                        .wrong(
                                Keys.CONTEXT,
                                "eval: nothing of the " + setup.split() + " split can be evaluated: "
                                        + (corpus.facts().dropped() > 0
                                                ? corpus.facts().lost()
                                                : "none of the documents has a token that counts"));
            }
            Corpus.Sample sample = corpus.sample(
                    setup.config().get(Keys.EVALUATION_TOKENS), setup.config().get(Keys.SEED));
            int[] chosen = sample.windows().stream()
                    .mapToInt(corpus::document)
                    .distinct()
                    .toArray();
            describe(report, corpus.facts(), sample, chosen.length);
            List<String> texts = Arrays.stream(chosen)
                    .mapToObj(d -> tokenizer.decode(documents.read(d).ids(), true))
                    .toList();
            List<Hole> lines = holes(texts, 1, false);
            List<Hole> inner = fim.isPresent() ? holes(texts, 1, true) : List.of();
            List<Hole> blocks = fim.isPresent() ? holes(texts, 4, true) : List.of();
            List<Behaviour.Prompt> prompts = Behaviour.prompts(setup.config(), sources.languages());
            List<Results> results = new ArrayList<>();
            for (boolean tuned : setup.adapter().isPresent() ? new boolean[] {false, true} : new boolean[] {false}) {
                String name = tuned ? "the tuned model" : "the base";
                setup.said().accept("evaluating " + name + " on " + sample.describe());
                try (Scope weights = new Scope(setup.device())) {
                    Model model = load(files, weights, tuned);
                    ObjectNode column = report.putObject(tuned ? "tuned" : "base");
                    Likelihood likelihood = likelihood(name, model, corpus, sample, chosen);
                    Map<String, Written> written = new LinkedHashMap<>();
                    written.put("next_line", written(name + ", next lines", model, lines, false, LINE_TOKENS));
                    written.put("fim_line", written(name + ", lines to fill in", model, inner, true, LINE_TOKENS));
                    written.put("fim_block", written(name + ", blocks to fill in", model, blocks, true, BLOCK_TOKENS));
                    likelihood(column, likelihood);
                    written.forEach((task, each) -> written(column, task, each));
                    List<Continued> continued = continued(model, prompts);
                    parseRate(column, continued);
                    results.add(new Results(likelihood, written, continued));
                }
            }
            if (results.size() == 2) {
                compare(report.putObject("tuned_minus_base"), results.get(0), results.get(1));
            }
            prompts(report, prompts, results);
            orientation(report.putObject("orientation"), joined(sources.train()), joined(texts));
        }
        return report;
    }

    private Model load(ModelFiles files, Scope weights, boolean tuned) {
        if (!tuned) {
            return base(files).load(weights, setup.precision());
        }
        try (LoraAdapter adapter =
                LoraAdapter.open(Checkpoints.resolve(setup.adapter().orElseThrow()), weights)) {
            return base(files).load(weights, setup.precision(), adapter);
        }
    }

    private ModelFiles base(ModelFiles files) {
        return files.asBase(setup.config().quantization());
    }

    private void describe(ObjectNode report, DataFacts facts, Corpus.Sample sample, int documents) {
        report.put("model", setup.model().toString());
        report.put("split", setup.split());
        report.put("documents", documents);
        report.put("documents_of_split", facts.documents());
        report.put("dropped_documents", facts.dropped());
        ObjectNode node = report.putObject("sample");
        node.put("tokens", sample.tokens()).put("of", sample.of()).put("loss_tokens", sample.lossTokens());
        node.put("seed", sample.seed()).put("text", sample.describe());
        if (facts.dropped() > 0) {
            report.put("note", facts.lost());
        }
    }

    /** Places spread over the documents, the same for every model. */
    private List<Hole> holes(List<String> texts, int lines, boolean after) {
        List<Hole> holes = new ArrayList<>();
        for (int attempt = 0; attempt < 20 * setup.samples() && holes.size() < setup.samples(); attempt++) {
            String text = texts.get((int) (Philox.uniform(11, lines, attempt) * texts.size()));
            List<Integer> starts = new ArrayList<>();
            for (int i = text.indexOf('\n'); i >= 0 && i + 1 < text.length(); i = text.indexOf('\n', i + 1)) {
                starts.add(i + 1);
            }
            if (starts.size() < lines + 3) {
                continue;
            }
            int first = 1 + (int) (Philox.uniform(12, lines, attempt) * (starts.size() - lines - 1));
            int from = starts.get(first);
            int to = starts.get(first + lines) - 1;
            String middle = text.substring(from, to);
            if (middle.strip().length() >= 4 && middle.length() <= 100 * lines) {
                holes.add(new Hole(text.substring(0, from), middle, after ? text.substring(to) : ""));
            }
        }
        return holes;
    }

    private Likelihood likelihood(String name, Model model, Corpus corpus, Corpus.Sample sample, int[] chosen) {
        int count = chosen.length;
        Likelihood all = new Likelihood(new double[count], new double[count], new double[count]);
        Countdown countdown =
                new Countdown(name + ", likelihood", "tokens", sample.tokens(), setup.nanoTime(), setup.said());
        long done = 0;
        try (Trainer trainer = new Trainer(
                model,
                Map.of(),
                setup.device(),
                setup.precision(),
                setup.fallback(),
                TrainRun.settings(setup.config(), false))) {
            for (int window : sample.windows()) {
                int d = Arrays.binarySearch(chosen, corpus.document(window));
                Example example = corpus.read(List.of(window), 0).getFirst();
                float[] losses = trainer.tokenLosses(List.of(example)).getFirst();
                for (int i = 1; i < losses.length; i++) {
                    if (example.labels()[i] != Example.IGNORED) {
                        all.nats[d] += losses[i];
                        all.bytes[d] += bytes(example.ids()[i]);
                        all.tokens[d]++;
                    }
                }
                done += losses.length;
                countdown.at(done);
            }
        }
        return all;
    }

    private int bytes(int id) {
        return tokenizer.isSpecial(id)
                ? 0
                : tokenizer.decode(new int[] {id}, false).getBytes(StandardCharsets.UTF_8).length;
    }

    private void likelihood(ObjectNode column, Likelihood likelihood) {
        Bootstrap nats = Bootstrap.ratio(likelihood.nats, likelihood.tokens);
        put(
                column.putObject("perplexity"),
                new Bootstrap(Math.exp(nats.value()), Math.exp(nats.low()), Math.exp(nats.high())));
        put(column.putObject("bits_per_byte"), bitsPerByte(likelihood.nats, likelihood.bytes));
    }

    private static Bootstrap bitsPerByte(double[] nats, double[] bytes) {
        double[] bits = Arrays.stream(nats).map(n -> n / Math.log(2)).toArray();
        return Bootstrap.ratio(bits, bytes);
    }

    private static void put(ObjectNode node, Bootstrap figure) {
        node.put("value", figure.value()).put("low", figure.low()).put("high", figure.high());
    }

    private void written(ObjectNode column, String name, Written written) {
        if (written.exact.length == 0) {
            column.putNull(name);
            return;
        }
        ObjectNode node = column.putObject(name);
        node.put("samples", written.exact.length);
        put(node.putObject("exact_match"), Bootstrap.mean(written.exact));
        put(node.putObject("edit_similarity"), Bootstrap.mean(written.similarity));
        put(node.putObject("identifier_f1"), Bootstrap.mean(written.identifiers));
    }

    private Written written(String name, Model model, List<Hole> holes, boolean surrounded, int most) {
        Countdown countdown = new Countdown(name, "samples", holes.size(), setup.nanoTime(), setup.said());
        Written written = new Written(new double[holes.size()], new double[holes.size()], new double[holes.size()]);
        for (int i = 0; i < holes.size(); i++) {
            Hole hole = holes.get(i);
            String text = write(model, hole, surrounded, most);
            written.exact[i] = text.strip().equals(hole.middle.strip()) ? 1 : 0;
            written.similarity[i] = similarity(text.strip(), hole.middle.strip());
            written.identifiers[i] = identifierF1(text, hole.middle);
            countdown.at(i + 1);
        }
        return written;
    }

    private List<Continued> continued(Model model, List<Behaviour.Prompt> prompts) {
        List<Continued> all = new ArrayList<>();
        for (Behaviour.Prompt prompt : prompts) {
            int context =
                    Math.min(setup.config().get(Keys.CONTEXT), model.facts().context());
            int most = Math.min(setup.config().get(Keys.PROMPT_TOKENS), context / 2);
            int[] ids = tokenizer.encode(prompt.text(), true);
            int[] kept = Arrays.copyOfRange(ids, Math.max(0, ids.length - (context - most - 1)), ids.length);
            List<Integer> written = greedy(model, kept, most, id -> true);
            String text = tokenizer.decode(
                    written.stream().mapToInt(Integer::intValue).toArray(), true);
            all.add(new Continued(text, Behaviour.parses(prompt, text, written.size() == most, setup.outside())));
        }
        return all;
    }

    private static void parseRate(ObjectNode column, List<Continued> continued) {
        double[] parses = parses(continued);
        if (parses.length == 0) {
            column.putNull("prompts");
            return;
        }
        ObjectNode node = column.putObject("prompts").put("samples", parses.length);
        put(node.putObject("parse_rate"), Bootstrap.mean(parses));
    }

    private static double[] parses(List<Continued> continued) {
        return continued.stream()
                .flatMap(each -> each.parses().stream())
                .mapToDouble(good -> good ? 1 : 0)
                .toArray();
    }

    private static void prompts(ObjectNode report, List<Behaviour.Prompt> prompts, List<Results> results) {
        ArrayNode list = report.putArray("prompts");
        for (int i = 0; i < prompts.size(); i++) {
            ObjectNode node = list.addObject();
            node.put("language", prompts.get(i).language())
                    .put("prompt", prompts.get(i).text());
            for (int r = 0; r < results.size(); r++) {
                Continued one = results.get(r).continued().get(i);
                ObjectNode column = node.putObject(r == 0 ? "base" : "tuned").put("text", one.text());
                one.parses().ifPresentOrElse(good -> column.put("parses", good), () -> column.putNull("parses"));
            }
        }
    }

    /** Greedy tokens until a special one, or until {@code more} says that one is the last. */
    private List<Integer> greedy(Model model, int[] prompt, int most, IntPredicate more) {
        List<Integer> ids = new ArrayList<>();
        try (Generator generator =
                new Generator(model, setup.device(), setup.precision(), setup.fallback(), prompt.length + most + 1)) {
            generator.greedy(prompt, most, id -> {
                if (tokenizer.isSpecial(id)) {
                    return false;
                }
                ids.add(id);
                return more.test(id);
            });
        }
        return ids;
    }

    private String write(Model model, Hole hole, boolean surrounded, int longest) {
        int context = Math.min(setup.config().get(Keys.CONTEXT), model.facts().context());
        int most = Math.min(longest, context / 4);
        int room = context - most - FimTokens.EXTRA - 1;
        int[] before = tokenizer.encode(hole.before, false);
        int[] after = tokenizer.encode(hole.after, false);
        int kept = surrounded ? room / 2 : room;
        before = Arrays.copyOfRange(before, Math.max(0, before.length - kept), before.length);
        after = Arrays.copyOf(after, Math.min(after.length, room / 2));
        int[] prompt = surrounded ? prompt(fim.orElseThrow(), before, after) : before;
        boolean line = longest == LINE_TOKENS;
        List<Integer> ids = greedy(
                model,
                prompt,
                most,
                id -> !line || tokenizer.decode(new int[] {id}, false).indexOf('\n') < 0);
        String text = tokenizer.decode(ids.stream().mapToInt(Integer::intValue).toArray(), true);
        int end = line ? text.indexOf('\n') : -1;
        return end >= 0 ? text.substring(0, end) : text;
    }

    private static int[] prompt(FimTokens fim, int[] before, int[] after) {
        int[] prompt = new int[before.length + after.length + FimTokens.EXTRA];
        prompt[0] = fim.prefix();
        System.arraycopy(before, 0, prompt, 1, before.length);
        prompt[1 + before.length] = fim.suffix();
        System.arraycopy(after, 0, prompt, 2 + before.length, after.length);
        prompt[prompt.length - 1] = fim.middle();
        return prompt;
    }

    /** 1 - distance / length of the longer. */
    static double similarity(String a, String b) {
        int longest = Math.max(a.length(), b.length());
        return longest == 0 ? 1 : 1 - (double) Nearest.distance(a, b) / longest;
    }

    static double identifierF1(String written, String expected) {
        Map<String, Integer> ours = identifiers(written);
        Map<String, Integer> theirs = identifiers(expected);
        int common = 0;
        for (Map.Entry<String, Integer> name : ours.entrySet()) {
            common += Math.min(name.getValue(), theirs.getOrDefault(name.getKey(), 0));
        }
        int all = ours.values().stream().mapToInt(n -> n).sum()
                + theirs.values().stream().mapToInt(n -> n).sum();
        return all == 0 ? 1 : 2.0 * common / all;
    }

    private static Map<String, Integer> identifiers(String text) {
        Map<String, Integer> names = new HashMap<>();
        Matcher matcher = IDENTIFIER.matcher(text);
        while (matcher.find()) {
            names.merge(matcher.group(), 1, Integer::sum);
        }
        return names;
    }

    private static void compare(ObjectNode node, Results base, Results tuned) {
        Likelihood before = base.likelihood;
        double[] bits = new double[before.nats.length];
        Arrays.setAll(bits, d -> (tuned.likelihood.nats[d] - before.nats[d]) / Math.log(2));
        put(node.putObject("perplexity"), Bootstrap.perplexities(tuned.likelihood.nats, before.nats, before.tokens));
        put(node.putObject("bits_per_byte"), Bootstrap.ratio(bits, before.bytes));
        double[] parsesTuned = parses(tuned.continued);
        double[] parsesBase = parses(base.continued);
        if (parsesTuned.length > 0 && parsesTuned.length == parsesBase.length) {
            put(node.putObject("prompts").putObject("parse_rate"), Bootstrap.difference(parsesTuned, parsesBase));
        }
        tuned.written.forEach((name, one) -> {
            Written other = base.written.get(name);
            if (one.exact.length > 0) {
                ObjectNode row = node.putObject(name);
                put(row.putObject("exact_match"), Bootstrap.difference(one.exact, other.exact));
                put(row.putObject("edit_similarity"), Bootstrap.difference(one.similarity, other.similarity));
                put(row.putObject("identifier_f1"), Bootstrap.difference(one.identifiers, other.identifiers));
            }
        });
    }

    private void orientation(ObjectNode node, byte[] train, byte[] test) {
        node.put("kneser_ney_3_bits_per_byte", ByteModels.kneserNey(train, test));
        node.put("ppm_5_bits_per_byte", ByteModels.partialMatching(train, test));
        OptionalLong alone = setup.outside().xz(test);
        if (alone.isEmpty() || test.length == 0) {
            node.putNull("xz_9_bits_per_byte").putNull("xz_9_after_train_bits_per_byte");
            return;
        }
        node.put("xz_9_bits_per_byte", 8.0 * alone.getAsLong() / test.length);
        byte[] both = Arrays.copyOf(train, train.length + test.length);
        System.arraycopy(test, 0, both, train.length, test.length);
        OptionalLong first = setup.outside().xz(train);
        OptionalLong all = setup.outside().xz(both);
        if (first.isPresent() && all.isPresent()) {
            node.put("xz_9_after_train_bits_per_byte", 8.0 * (all.getAsLong() - first.getAsLong()) / test.length);
        } else {
            node.putNull("xz_9_after_train_bits_per_byte");
        }
    }

    private byte[] joined(TokenDocuments documents) {
        List<String> texts = new ArrayList<>();
        long length = 0;
        for (int d = 0; d < documents.count() && length < LONGEST_STATISTICS; d++) {
            texts.add(tokenizer.decode(documents.read(d).ids(), true));
            length += texts.getLast().length();
        }
        return joined(texts);
    }

    private static byte[] joined(List<String> texts) {
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < texts.size() && all.length() < LONGEST_STATISTICS; i++) {
            all.append(texts.get(i));
        }
        return all.toString().getBytes(StandardCharsets.UTF_8);
    }
}
