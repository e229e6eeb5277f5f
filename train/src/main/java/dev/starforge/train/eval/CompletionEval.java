package dev.starforge.train.eval;

import dev.starforge.model.Model;
import dev.starforge.tensor.Philox;
import dev.starforge.text.ClosestName;
import dev.starforge.text.TokenIdList;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.fim.FillInMiddle.Cursor;
import dev.starforge.text.fim.SuffixStops;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.config.Keys;
import dev.starforge.train.corpus.FimTokens;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import tools.jackson.databind.node.ObjectNode;

/**
 * Measures code completion as editors request it: a line from its start, from inside a word or from the end of a word, once
 * from the text before it and once with fill-in-the-middle; and a block. Each completion is compared with the original text.
 * Prompts are built and completions end as in {@code /infill} and in {@code /v1/completions} with token healing.
 *
 * @param exact 1 if the completion equals the original, except for leading and trailing white space
 * @param similarity 1 - edit distance / length of the longer text
 * @param identifiers F1 score of the identifiers
 */
record CompletionEval(double[] exact, double[] similarity, double[] identifiers) {
    private static final Pattern IDENTIFIER = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");

    /** A span of a document to complete, with the text before and after it. */
    record Gap(String prefix, String middle, String suffix) {}

    /** A text in reading order; spans are taken from between {@code from} and {@code to}. */
    record Passage(String text, int from, int to) {}

    /** Where the cursor is in a line. */
    enum Cut {
        LINE_START {
            @Override
            boolean isAt(String line, int at) {
                return at == 0;
            }
        },
        MID_WORD {
            @Override
            boolean isAt(String line, int at) {
                return isWord(line, at - 1) && isWord(line, at);
            }
        },
        WORD_END {
            @Override
            boolean isAt(String line, int at) {
                return isWord(line, at - 1) && at < line.length() && !isWord(line, at);
            }
        };

        abstract boolean isAt(String line, int at);

        private static boolean isWord(String line, int at) {
            return at >= 0 && at < line.length() && Character.isUnicodeIdentifierPart(line.charAt(at));
        }
    }

    /** A completion task. */
    enum Task {
        NEXT_LINE("next_line", "next lines", Cut.LINE_START, 1, 64, false),
        FIM_LINE("fim_line", "fill-in-the-middle lines", Cut.LINE_START, 1, 64, true),
        FIM_BLOCK("fim_block", "fill-in-the-middle blocks", Cut.LINE_START, 4, 192, true),
        MID_WORD("mid_word", "lines from inside a word", Cut.MID_WORD, 1, 64, false),
        FIM_MID_WORD("fim_mid_word", "lines filled in from inside a word", Cut.MID_WORD, 1, 64, true),
        WORD_END("word_end", "lines from the end of a word", Cut.WORD_END, 1, 64, false),
        FIM_WORD_END("fim_word_end", "lines filled in from the end of a word", Cut.WORD_END, 1, 64, true);

        final String field;
        private final String title;
        private final Cut cut;
        private final int lines;
        private final int maxTokens;
        private final boolean fim;

        Task(String field, String title, Cut cut, int lines, int maxTokens, boolean fim) {
            this.field = field;
            this.title = title;
            this.cut = cut;
            this.lines = lines;
            this.maxTokens = maxTokens;
            this.fim = fim;
        }
    }

    /**
     * The texts to complete lines in. A fill-in-the-middle document becomes the file it was cut from, and lines are
     * taken from its middle, which is what a held-out commit wrote. If there are such documents, the others (commits)
     * are left out.
     */
    static List<Passage> passages(List<int[]> documents, Tokenizer tokenizer, Optional<FimTokens> markers) {
        List<Passage> cut = documents.stream()
                .flatMap(ids -> markers.flatMap(known -> known.parts(ids)).stream())
                .map(parts -> passage(parts, tokenizer))
                .toList();
        if (!cut.isEmpty()) {
            return cut;
        }
        return documents.stream()
                .map(ids -> tokenizer.decode(ids, true))
                .map(text -> new Passage(text, 0, text.length()))
                .toList();
    }

    private static Passage passage(FimTokens.Parts parts, Tokenizer tokenizer) {
        TokenIdList ids = new TokenIdList();
        ids.addAll(parts.prefix());
        int from = tokenizer.decode(ids.toArray(), true).length();
        ids.addAll(parts.middle());
        int to = tokenizer.decode(ids.toArray(), true).length();
        ids.addAll(parts.suffix());
        return new Passage(tokenizer.decode(ids.toArray(), true), from, to);
    }

    /**
     * Selects distinct spans spread over the passages, the same for every model; empty if the model has no tokens for
     * the task.
     */
    static List<Gap> gaps(Task task, List<Passage> passages, int samples, Optional<FimTokens> markers) {
        if (task.fim && markers.isEmpty()) {
            return List.of();
        }
        Set<Gap> gaps = new LinkedHashSet<>();
        int lines = task.lines;
        for (int attempt = 0; attempt < 20 * samples && gaps.size() < samples; attempt++) {
            Passage passage = passages.get((int) (Philox.uniform(11, lines, attempt) * passages.size()));
            String text = passage.text();
            List<Integer> starts = new ArrayList<>();
            for (int i = text.indexOf('\n'); i >= 0 && i + 1 < text.length(); i = text.indexOf('\n', i + 1)) {
                starts.add(i + 1);
            }
            int[] places = IntStream.range(1, starts.size() - lines)
                    .filter(k -> starts.get(k) >= passage.from() && starts.get(k + lines) <= passage.to())
                    .toArray();
            if (places.length < 1) {
                continue;
            }
            int first = places[(int) (Philox.uniform(12, lines, attempt) * places.length)];
            int begin = starts.get(first);
            int to = starts.get(first + lines) - 1;
            String line = text.substring(begin, to);
            int[] cuts = IntStream.range(0, line.length())
                    .filter(at -> task.cut.isAt(line, at))
                    .toArray();
            if (cuts.length < 1) {
                continue;
            }
            int from = begin + cuts[(int) (Philox.uniform(13, task.cut.ordinal(), attempt) * cuts.length)];
            String middle = text.substring(from, to);
            if (middle.strip().length() >= 4 && middle.length() <= 100 * lines) {
                gaps.add(new Gap(text.substring(0, from), middle, task.fim ? text.substring(to) : ""));
            }
        }
        return List.copyOf(gaps);
    }

    /** Completes every span; {@code name} is the model's name for progress messages. */
    static CompletionEval of(Task task, List<Gap> gaps, String name, Model model, Evaluation.Setup setup) {
        EvalProgress countdown =
                new EvalProgress(name + ", " + task.title, "samples", gaps.size(), setup.nanoTime(), setup.progress());
        int count = gaps.size();
        CompletionEval all = new CompletionEval(new double[count], new double[count], new double[count]);
        for (int i = 0; i < count; i++) {
            String expected = gaps.get(i).middle();
            String text = complete(task, gaps.get(i), model, setup);
            all.exact[i] = text.strip().equals(expected.strip()) ? 1 : 0;
            all.similarity[i] = similarity(text.strip(), expected.strip());
            all.identifiers[i] = identifierF1(text, expected);
            countdown.at(i + 1);
        }
        return all;
    }

    private static String complete(Task task, Gap gap, Model model, Evaluation.Setup setup) {
        Tokenizer tokenizer = setup.tokenizer();
        int context = Math.min(setup.config().get(Keys.CONTEXT), model.info().contextLength());
        int maxTokens = Math.min(task.maxTokens, context / 4);
        int room = context - maxTokens - 1;
        Cursor cursor = new Cursor(gap.prefix(), "", gap.suffix());
        HealedPrompt prompt = task.fim
                ? FillInMiddle.of(tokenizer, setup.model())
                        .window(cursor, List.of(), FillInMiddle.NEAR_TOKENS, room, true)
                        .prompt()
                : tokenizer.heal(tokenizer.encodeLast(gap.prefix(), room));
        boolean line = task.lines == 1;
        SuffixStops stops = SuffixStops.of(gap.suffix());
        String text = setup.greedy(model, prompt, maxTokens, stops, piece -> !line || piece.indexOf('\n') < 0)
                .text();
        int end = line ? text.indexOf('\n') : -1;
        return end >= 0 ? text.substring(0, end) : text;
    }

    void report(ObjectNode column, Task task) {
        if (exact.length == 0) {
            column.putNull(task.field);
            return;
        }
        ObjectNode node = column.putObject(task.field).put("samples", exact.length);
        MetricEstimates.put(node, "exact_match", BootstrapInterval.mean(exact));
        MetricEstimates.put(node, "edit_similarity", BootstrapInterval.mean(similarity));
        MetricEstimates.put(node, "identifier_f1", BootstrapInterval.mean(identifiers));
    }

    /** Writes the difference to the base model, sample by sample. */
    void compare(ObjectNode parent, Task task, CompletionEval base) {
        if (exact.length > 0) {
            ObjectNode node = parent.putObject(task.field);
            MetricEstimates.put(node, "exact_match", BootstrapInterval.difference(exact, base.exact));
            MetricEstimates.put(node, "edit_similarity", BootstrapInterval.difference(similarity, base.similarity));
            MetricEstimates.put(node, "identifier_f1", BootstrapInterval.difference(identifiers, base.identifiers));
        }
    }

    static double similarity(String a, String b) {
        int longest = Math.max(a.length(), b.length());
        return longest == 0 ? 1 : 1 - (double) ClosestName.distance(a, b) / longest;
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
}
