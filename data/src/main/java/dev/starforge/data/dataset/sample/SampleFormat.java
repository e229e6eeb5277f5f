package dev.starforge.data.dataset.sample;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.text.TokenBuffer;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalInt;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * How a family of models wants files, gaps and commits written. The family is known by the special tokens of its
 * vocabulary; a sample is a list of pieces, each a special token or a text, and each counted in the loss or not.
 */
public final class SampleFormat {
    /** Families, the more demanding before the ones whose tokens they share. */
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

    /** A special token, or a text; and whether it counts. */
    public record SampleSpan(boolean special, String text, boolean counted) {}

    /** A file in a sample; the path may be withheld. */
    record SourceFile(String path, String code) {}

    /** A text with a gap. */
    record FimSplit(String prefix, String middle, String suffix) {}

    /**
     * A changed file of a commit.
     *
     * @param base what the commit found, or a part of it
     * @param hunks of the difference, each of lines that begin with a mark
     */
    record ChangedFile(String path, String base, List<String> hunks) {}

    private final ModelFamily family;
    private final Tokenizer tokenizer;
    private final String end;

    /**
     * The format for a vocabulary.
     *
     * @param label a family that it must have the tokens of, or {@code auto} for the first whose tokens it has
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

    /** The tokens to train a vocabulary with. */
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

    /** Whether gaps can be asked for; without tokens for them, everything is plain text. */
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

    /** What stands before the first file. */
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

    /** A file as it is. */
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
     * A file with a gap to be filled in. The path is part of the prefix.
     *
     * @param suffixFirst the order suffix, prefix, middle; else prefix, suffix, middle
     * @param around whether what is around the gap counts
     */
    List<SampleSpan> fim(String path, FimSplit split, boolean metadata, boolean suffixFirst, boolean around) {
        return switch (family) {
            case STARCODER2 -> {
                List<SampleSpan> pieces = new ArrayList<>();
                pieces.add(token("<file_sep>", around));
                String prefix = metadata ? path + "\n" + split.prefix() : split.prefix();
                pieces.addAll(
                        markers("<fim_prefix>", "<fim_suffix>", "<fim_middle>", prefix, split, suffixFirst, around));
                yield pieces;
            }
            case STARCODER1 -> {
                String prefix = metadata ? path + "\n" + split.prefix() : split.prefix();
                List<SampleSpan> pieces = new ArrayList<>();
                if (metadata) {
                    pieces.add(token("<filename>", around));
                }
                pieces.addAll(
                        markers("<fim_prefix>", "<fim_suffix>", "<fim_middle>", prefix, split, suffixFirst, around));
                yield pieces;
            }
            case QWEN -> {
                List<SampleSpan> pieces = new ArrayList<>();
                pieces.add(token("<|file_sep|>", around));
                if (metadata) {
                    pieces.add(text(path + "\n", around));
                }
                pieces.addAll(markers(
                        "<|fim_prefix|>",
                        "<|fim_suffix|>",
                        "<|fim_middle|>",
                        split.prefix(),
                        split,
                        suffixFirst,
                        around));
                yield pieces;
            }
            case DEEPSEEK -> {
                String prefix = metadata ? "# " + path + "\n" + split.prefix() : split.prefix();
                yield markers("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", prefix, split, suffixFirst, around);
            }
            case CODELLAMA -> {
                // as its prompts have it: a space before the first text, as its vocabulary puts before any
                String prefix = " " + (metadata ? "# " + path + "\n" + split.prefix() : split.prefix());
                List<SampleSpan> pieces =
                        new ArrayList<>(markers("▁<PRE>", "▁<SUF>", "▁<MID>", prefix, split, suffixFirst, around));
                pieces.add(token("▁<EOT>", true));
                yield pieces;
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

    /** A commit; of its hunks the added lines count. */
    List<SampleSpan> commit(String repository, String subject, String body, List<ChangedFile> files) {
        List<SampleSpan> pieces = new ArrayList<>();
        String description = body.isEmpty() ? subject : subject + "\n" + body;
        switch (family) {
            case STARCODER2 -> {
                pieces.add(token("<pr>", false));
                pieces.add(text("Title: " + description, false));
                pieces.add(token("<pr_status>", false));
                pieces.add(text("opened", false));
                pieces.add(token("<repo_name>", false));
                pieces.add(text(repository + "\n\n", false));
                pieces.add(token("<pr_base>", false));
                pieces.add(text("\n", false));
                for (ChangedFile file : files) {
                    pieces.add(token("<pr_file>", false));
                    pieces.add(text(file.path() + "\n", false));
                    pieces.add(token("<pr_base_code>", false));
                    pieces.add(text(file.base(), false));
                }
                pieces.add(token("<pr_diff>", false));
                pieces.add(text("\n", false));
                for (ChangedFile file : files) {
                    pieces.add(token("<pr_file>", false));
                    pieces.add(text(file.path() + "\n", false));
                    for (String hunk : file.hunks()) {
                        pieces.add(token("<pr_diff_hunk>", false));
                        hunk(hunk, pieces);
                    }
                }
                pieces.add(token("<pr>", false));
                pieces.add(text("username_0", false));
                pieces.add(token("<pr_status>", false));
                pieces.add(text("closed\n", false));
                pieces.add(token("<pr_is_merged>", false));
                pieces.add(text("True\n", false));
            }
            case STARCODER1 -> {
                for (ChangedFile file : files) {
                    pieces.add(token("<commit_before>", false));
                    pieces.add(text(file.base(), false));
                    pieces.add(token("<commit_msg>", false));
                    pieces.add(text(description, false));
                    pieces.add(token("<commit_after>", false));
                    file.hunks().forEach(hunk -> after(hunk, pieces));
                }
            }
            case QWEN -> {
                pieces.add(token("<|repo_name|>", false));
                pieces.add(text(repository + "\n" + description + "\n", false));
                for (ChangedFile file : files) {
                    pieces.add(token("<|file_sep|>", false));
                    pieces.add(text(file.path() + "\n", false));
                    file.hunks().forEach(hunk -> hunk(hunk, pieces));
                }
            }
            case DEEPSEEK, CODELLAMA, PLAIN -> {
                pieces.add(text(description + "\n", false));
                for (ChangedFile file : files) {
                    pieces.add(text("# " + file.path() + "\n", false));
                    file.hunks().forEach(hunk -> hunk(hunk, pieces));
                }
            }
        }
        return pieces;
    }

    /** Runs of added lines, which count, and runs of others. */
    private static void hunk(String hunk, List<SampleSpan> pieces) {
        StringBuilder run = new StringBuilder();
        boolean added = false;
        for (String line : hunk.split("(?<=\n)")) {
            boolean plus = line.startsWith("+");
            if (plus != added && !run.isEmpty()) {
                pieces.add(text(run.toString(), added));
                run.setLength(0);
            }
            added = plus;
            run.append(line);
        }
        if (!run.isEmpty()) {
            pieces.add(text(run.toString(), added));
        }
    }

    /** Lines as git has them, which end with a newline and with nothing else. */
    private static Stream<String> lines(String text) {
        return text.isEmpty() ? Stream.empty() : Stream.of(text.split("(?<=\n)"));
    }

    /** The new side of a hunk. */
    private static void after(String hunk, List<SampleSpan> pieces) {
        String without = lines(hunk)
                .filter(line -> !line.startsWith("-") && !line.startsWith("@@"))
                .collect(Collectors.joining());
        List<SampleSpan> marked = new ArrayList<>();
        hunk(without, marked);
        for (SampleSpan piece : marked) {
            pieces.add(text(
                    lines(piece.text()).map(line -> line.substring(1)).collect(Collectors.joining()), piece.counted()));
        }
    }

    /** The sample as one text. */
    static String text(List<SampleSpan> pieces) {
        return pieces.stream().map(SampleSpan::text).collect(Collectors.joining());
    }

    /** Appends the ids of a piece. Placeholders for secrets are tokens where the vocabulary has them. */
    void encode(SampleSpan piece, TokenBuffer ids) {
        if (piece.special()) {
            ids.add(tokenizer.id(piece.text()).orElseThrow());
            return;
        }
        int from = 0;
        String text = piece.text();
        for (int at = text.indexOf('<'); at >= 0; at = text.indexOf('<', at + 1)) {
            for (String placeholder : List.of(Redactor.KEY, Redactor.PASSWORD, Redactor.EMAIL, Redactor.NAME)) {
                OptionalInt id = text.startsWith(placeholder, at) ? tokenizer.id(placeholder) : OptionalInt.empty();
                if (id.isPresent()) {
                    inside(text.substring(from, at), ids);
                    ids.add(id.getAsInt());
                    from = at + placeholder.length();
                    break;
                }
            }
        }
        inside(text.substring(from), ids);
    }

    private void inside(String text, TokenBuffer ids) {
        if (!text.isEmpty()) {
            tokenizer.encodeInside(text, ids);
        }
    }
}
