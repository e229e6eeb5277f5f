package dev.starforge.data.dataset.sample;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.text.TokenIdList;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalInt;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The sample format of a model family: files, fill-in-the-middle splits and commits. The family is detected by the special
 * tokens of the vocabulary. A sample is a list of spans, each a special token or text, that count in the loss or not.
 */
public final class SampleFormat {
    /** Model families with their special tokens; a family comes before those whose tokens are a subset of its own. */
    public enum ModelFamily {
        STARCODER2(
                "<repo_name>",
                "<file_sep>",
                "<fim_prefix>",
                "<fim_suffix>",
                "<fim_middle>",
                "<pr>",
                "<pr_status>",
                "<pr_is_merged>",
                "<pr_base>",
                "<pr_file>",
                "<pr_base_code>",
                "<pr_diff>",
                "<pr_diff_hunk>",
                "<|endoftext|>"),
        STARCODER1(
                "<reponame>",
                "<filename>",
                "<fim_prefix>",
                "<fim_suffix>",
                "<fim_middle>",
                "<commit_before>",
                "<commit_msg>",
                "<commit_after>",
                "<|endoftext|>"),
        QWEN("<|repo_name|>", "<|file_sep|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|endoftext|>"),
        DEEPSEEK("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<｜end▁of▁sentence｜>"),
        CODELLAMA("▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>", "</s>"),
        PLAIN;

        private final List<String> tokens;

        ModelFamily(String... tokens) {
            this.tokens = List.of(tokens);
        }

        public String label() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /** A special token or text, and whether it counts in the loss. */
    public record SampleSpan(boolean special, String text, boolean counted) {}

    /** A file in a sample. */
    record SourceFile(String path, String code) {}

    /** A text split for fill-in-the-middle. */
    record FimSplit(String prefix, String middle, String suffix) {}

    /**
     * A changed file of a commit.
     *
     * @param base the file before the commit, or a part of it
     * @param hunks of the patch, whose lines begin with a space, + or -
     */
    record ChangedFile(String path, String base, List<String> hunks) {}

    private final ModelFamily family;
    private final Tokenizer tokenizer;
    private final String end;

    /**
     * Creates the format for a vocabulary.
     *
     * @param label a family whose tokens the vocabulary must have, or {@code auto} for the first whose tokens it has
     */
    public SampleFormat(Tokenizer tokenizer, Path file, String label) {
        this.tokenizer = tokenizer;
        family = label.equals("auto")
                ? List.of(ModelFamily.values()).stream()
                        .filter(candidate -> candidate.tokens.stream().allMatch(this::has))
                        .findFirst()
                        .orElseThrow()
                : wanted(label, tokenizer, file);
        end = List.of("<|endoftext|>", "<｜end▁of▁sentence｜>", "<|end_of_text|>", "</s>").stream()
                .filter(this::has)
                .findFirst()
                .orElseThrow(() -> new DatasetException(
                        file,
                        "has no token that ends a text; looked for <|endoftext|>, <｜end▁of▁sentence｜>, <|end_of_text|> "
                                + "and </s>"));
    }

    private static ModelFamily wanted(String label, Tokenizer tokenizer, Path file) {
        ModelFamily family = ModelFamily.valueOf(label.toUpperCase(Locale.ROOT));
        List<String> missing = family.tokens.stream()
                .filter(token -> tokenizer.id(token).isEmpty())
                .toList();
        if (!missing.isEmpty()) {
            throw new DatasetException(
                    file, "cannot write samples for " + label + ": its vocabulary lacks " + String.join(" ", missing));
        }
        return family;
    }

    /** The special tokens of a vocabulary that is trained for a dataset. */
    public static List<String> specialTokens() {
        List<String> tokens = new ArrayList<>(ModelFamily.STARCODER2.tokens);
        tokens.remove("<|endoftext|>");
        tokens.addFirst("<|endoftext|>");
        tokens.addAll(List.of("<fim_pad>", Redactor.KEY, Redactor.PASSWORD, Redactor.EMAIL, Redactor.NAME));
        return tokens;
    }

    private boolean has(String token) {
        return tokenizer.id(token).isPresent();
    }

    public ModelFamily family() {
        return family;
    }

    /** Returns false if the vocabulary has no fill-in-the-middle tokens; samples are plain text then. */
    public boolean supportsFim() {
        return family != ModelFamily.PLAIN;
    }

    public Tokenizer tokenizer() {
        return tokenizer;
    }

    private static SampleSpan token(String text, boolean counted) {
        return new SampleSpan(true, text, counted);
    }

    private static SampleSpan text(String text, boolean counted) {
        return new SampleSpan(false, text, counted);
    }

    /** The spans before the first file. */
    List<SampleSpan> begin(String repository, boolean metadata) {
        if (!metadata) {
            return List.of();
        }
        return switch (family) {
            case STARCODER2 -> List.of(token("<repo_name>", true), text(repository, true));
            case STARCODER1 -> List.of(token("<reponame>", true), text(repository, true));
            case QWEN -> List.of(token("<|repo_name|>", true), text(repository + "\n", true));
            case DEEPSEEK, CODELLAMA, PLAIN -> List.of();
        };
    }

    List<SampleSpan> end(boolean counted) {
        return List.of(token(end, counted));
    }

    /** A file without a split. */
    List<SampleSpan> file(SourceFile file, boolean metadata, boolean counted) {
        String named = metadata ? file.path() + "\n" + file.code() : file.code();
        return switch (family) {
            case STARCODER2 -> List.of(token("<file_sep>", counted), text(named, counted));
            case STARCODER1 ->
                metadata ? List.of(token("<filename>", counted), text(named, counted)) : List.of(text(named, counted));
            case QWEN -> List.of(token("<|file_sep|>", counted), text(named + "\n", counted));
            case DEEPSEEK, CODELLAMA, PLAIN ->
                List.of(text(metadata ? "# " + file.path() + "\n" + file.code() + "\n" : file.code() + "\n", counted));
        };
    }

    /**
     * A file as a fill-in-the-middle sample. The path is part of the prefix.
     *
     * @param suffixFirst true for the order suffix, prefix, middle (SPM); false for prefix, suffix, middle (PSM)
     * @param around whether prefix and suffix count in the loss
     */
    List<SampleSpan> fim(String path, FimSplit split, boolean metadata, boolean suffixFirst, boolean around) {
        return switch (family) {
            case STARCODER2 -> {
                List<SampleSpan> spans = new ArrayList<>();
                spans.add(token("<file_sep>", around));
                String prefix = metadata ? path + "\n" + split.prefix() : split.prefix();
                spans.addAll(
                        markers("<fim_prefix>", "<fim_suffix>", "<fim_middle>", prefix, split, suffixFirst, around));
                yield spans;
            }
            case STARCODER1 -> {
                String prefix = metadata ? path + "\n" + split.prefix() : split.prefix();
                List<SampleSpan> spans = new ArrayList<>();
                if (metadata) {
                    spans.add(token("<filename>", around));
                }
                spans.addAll(
                        markers("<fim_prefix>", "<fim_suffix>", "<fim_middle>", prefix, split, suffixFirst, around));
                yield spans;
            }
            case QWEN -> {
                List<SampleSpan> spans = new ArrayList<>();
                spans.add(token("<|file_sep|>", around));
                if (metadata) {
                    spans.add(text(path + "\n", around));
                }
                spans.addAll(markers(
                        "<|fim_prefix|>",
                        "<|fim_suffix|>",
                        "<|fim_middle|>",
                        split.prefix(),
                        split,
                        suffixFirst,
                        around));
                yield spans;
            }
            case DEEPSEEK -> {
                String prefix = metadata ? "# " + path + "\n" + split.prefix() : split.prefix();
                yield markers("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", prefix, split, suffixFirst, around);
            }
            case CODELLAMA -> {
                // the prompt format has a space before the first text, like the prefix space of the tokenizer
                String prefix = " " + (metadata ? "# " + path + "\n" + split.prefix() : split.prefix());
                List<SampleSpan> spans =
                        new ArrayList<>(markers("▁<PRE>", "▁<SUF>", "▁<MID>", prefix, split, suffixFirst, around));
                spans.add(token("▁<EOT>", true));
                yield spans;
            }
            case PLAIN ->
                List.of(text(split.prefix(), around), text(split.middle(), true), text(split.suffix(), around));
        };
    }

    private static List<SampleSpan> markers(
            String before,
            String after,
            String middle,
            String prefix,
            FimSplit split,
            boolean suffixFirst,
            boolean around) {
        return suffixFirst
                ? List.of(
                        token(before, around),
                        token(after, around),
                        text(split.suffix(), around),
                        token(middle, around),
                        text(prefix, around),
                        text(split.middle(), true))
                : List.of(
                        token(before, around),
                        text(prefix, around),
                        token(after, around),
                        text(split.suffix(), around),
                        token(middle, around),
                        text(split.middle(), true));
    }

    /** A commit; the added lines of its hunks count in the loss. */
    List<SampleSpan> commit(String repository, String subject, String body, List<ChangedFile> files) {
        List<SampleSpan> spans = new ArrayList<>();
        String description = body.isEmpty() ? subject : subject + "\n" + body;
        switch (family) {
            case STARCODER2 -> {
                spans.add(token("<pr>", false));
                spans.add(text("Title: " + description, false));
                spans.add(token("<pr_status>", false));
                spans.add(text("opened", false));
                spans.add(token("<repo_name>", false));
                spans.add(text(repository + "\n\n", false));
                spans.add(token("<pr_base>", false));
                spans.add(text("\n", false));
                for (ChangedFile file : files) {
                    spans.add(token("<pr_file>", false));
                    spans.add(text(file.path() + "\n", false));
                    spans.add(token("<pr_base_code>", false));
                    spans.add(text(file.base(), false));
                }
                spans.add(token("<pr_diff>", false));
                spans.add(text("\n", false));
                for (ChangedFile file : files) {
                    spans.add(token("<pr_file>", false));
                    spans.add(text(file.path() + "\n", false));
                    for (String hunk : file.hunks()) {
                        spans.add(token("<pr_diff_hunk>", false));
                        hunk(hunk, spans);
                    }
                }
                spans.add(token("<pr>", false));
                spans.add(text("username_0", false));
                spans.add(token("<pr_status>", false));
                spans.add(text("closed\n", false));
                spans.add(token("<pr_is_merged>", false));
                spans.add(text("True\n", false));
            }
            case STARCODER1 -> {
                for (ChangedFile file : files) {
                    spans.add(token("<commit_before>", false));
                    spans.add(text(file.base(), false));
                    spans.add(token("<commit_msg>", false));
                    spans.add(text(description, false));
                    spans.add(token("<commit_after>", false));
                    file.hunks().forEach(hunk -> after(hunk, spans));
                }
            }
            case QWEN -> {
                spans.add(token("<|repo_name|>", false));
                spans.add(text(repository + "\n" + description + "\n", false));
                for (ChangedFile file : files) {
                    spans.add(token("<|file_sep|>", false));
                    spans.add(text(file.path() + "\n", false));
                    file.hunks().forEach(hunk -> hunk(hunk, spans));
                }
            }
            case DEEPSEEK, CODELLAMA, PLAIN -> {
                spans.add(text(description + "\n", false));
                for (ChangedFile file : files) {
                    spans.add(text("# " + file.path() + "\n", false));
                    file.hunks().forEach(hunk -> hunk(hunk, spans));
                }
            }
        }
        return spans;
    }

    /** Splits a hunk into runs of added lines, which count, and runs of other lines. */
    private static void hunk(String hunk, List<SampleSpan> spans) {
        StringBuilder run = new StringBuilder();
        boolean added = false;
        for (String line : hunk.split("(?<=\n)")) {
            boolean plus = line.startsWith("+");
            if (plus != added && !run.isEmpty()) {
                spans.add(text(run.toString(), added));
                run.setLength(0);
            }
            added = plus;
            run.append(line);
        }
        if (!run.isEmpty()) {
            spans.add(text(run.toString(), added));
        }
    }

    /** The lines of a text; as in git, only a newline ends a line. */
    private static Stream<String> lines(String text) {
        return text.isEmpty() ? Stream.empty() : Stream.of(text.split("(?<=\n)"));
    }

    /** The new side of a hunk, without marks. */
    private static void after(String hunk, List<SampleSpan> spans) {
        String without = lines(hunk)
                .filter(line -> !line.startsWith("-") && !line.startsWith("@@"))
                .collect(Collectors.joining());
        List<SampleSpan> marked = new ArrayList<>();
        hunk(without, marked);
        for (SampleSpan span : marked) {
            spans.add(text(
                    lines(span.text()).map(line -> line.substring(1)).collect(Collectors.joining()), span.counted()));
        }
    }

    /** The text of all spans. */
    static String text(List<SampleSpan> spans) {
        return spans.stream().map(SampleSpan::text).collect(Collectors.joining());
    }

    /** Appends the ids of a span. Placeholders for secrets are special tokens if the vocabulary has them. */
    void encode(SampleSpan span, TokenIdList ids) {
        if (span.special()) {
            ids.add(tokenizer.id(span.text()).orElseThrow());
            return;
        }
        int from = 0;
        String text = span.text();
        for (int at = text.indexOf('<'); at >= 0; at = text.indexOf('<', at + 1)) {
            for (String placeholder : List.of(Redactor.KEY, Redactor.PASSWORD, Redactor.EMAIL, Redactor.NAME)) {
                OptionalInt id = text.startsWith(placeholder, at) ? tokenizer.id(placeholder) : OptionalInt.empty();
                if (id.isPresent()) {
                    encodeText(text.substring(from, at), ids);
                    ids.add(id.getAsInt());
                    from = at + placeholder.length();
                    break;
                }
            }
        }
        encodeText(text.substring(from), ids);
    }

    private void encodeText(String text, TokenIdList ids) {
        if (!text.isEmpty()) {
            tokenizer.encodeFragment(text, ids);
        }
    }
}
