package dev.starforge.data.dataset.sample;

import dev.starforge.data.SampleOrigin;
import dev.starforge.data.dataset.chunk.Chunker;
import dev.starforge.data.dataset.chunk.CodeChunk;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.git.LineIndex;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Samples of commits: the message, code before the change, and the diff, of which the added lines count in the loss. */
final class CommitSampler {
    private static final Pattern HUNK = Pattern.compile("(?dm)^@@ -(\\d+),(\\d+) \\+(\\d+),(\\d+) @@");
    private static final int MAX_BODY = 2000;

    /** Share of the context that the commit message may take. */
    private static final double MESSAGE_SHARE = 0.75;

    private final DatasetConfig config;
    private final SampleFormat format;
    private final SampleOutput out;

    CommitSampler(DatasetConfig config, SampleFormat format, SampleOutput out) {
        this.config = config;
        this.format = format;
        this.out = out;
    }

    /** A changed file, and how many tokens it adds to its sample. */
    private record SizedFile(SampleFormat.ChangedFile file, int tokens) {}

    /**
     * The budget of a commit's samples.
     *
     * @param body of the message, truncated
     * @param head tokens of the message alone
     * @param room tokens left for files
     */
    private record CommitBudget(SampleWorker.CommitChanges commit, String body, int head, int room) {}

    void sample(SampleWorker.CommitChanges commit) throws IOException {
        Map<String, List<CodeChunk>> byPath = new LinkedHashMap<>();
        commit.chunks()
                .forEach(chunk -> byPath.computeIfAbsent(chunk.path(), path -> new ArrayList<>())
                        .add(chunk));
        String body = commit.body().length() > MAX_BODY ? commit.body().substring(0, MAX_BODY) : commit.body();
        int head = out.tokens(format.commit(config.name(), commit.subject(), body, List.of()));
        while (head > MESSAGE_SHARE * config.contextLength() && !body.isEmpty()) {
            body = body.substring(0, body.length() / 2);
            head = out.tokens(format.commit(config.name(), commit.subject(), body, List.of()));
        }
        if (head >= config.contextLength() - 1) {
            out.addTooLong();
            return;
        }
        CommitBudget budget = new CommitBudget(commit, body, head, config.contextLength() - head - 1);
        List<SampleFormat.ChangedFile> open = new ArrayList<>();
        List<String> blobs = new ArrayList<>();
        int used = 0;
        int number = 0;
        for (Map.Entry<String, List<CodeChunk>> entry : byPath.entrySet()) {
            for (SizedFile file : fitting(budget, entry.getKey(), entry.getValue())) {
                if (used + file.tokens > budget.room && !open.isEmpty()) {
                    emit(budget, open, blobs, number++);
                    open = new ArrayList<>();
                    blobs = new ArrayList<>();
                    used = 0;
                }
                open.add(file.file);
                blobs.add(entry.getValue().getFirst().blob());
                used += file.tokens;
            }
        }
        if (!open.isEmpty()) {
            emit(budget, open, blobs, number);
        }
    }

    private void emit(CommitBudget budget, List<SampleFormat.ChangedFile> files, List<String> blobs, int number) {
        SampleWorker.CommitChanges commit = budget.commit;
        List<SampleFormat.SampleSpan> spans =
                new ArrayList<>(format.commit(config.name(), commit.subject(), budget.body, files));
        spans.addAll(format.end(false));
        out.add(
                commit.split(),
                "commit-" + commit.id().substring(0, 16) + "-" + number,
                new SampleOrigin(
                        commit.id(),
                        commit.time(),
                        SampleOutput.folder(files.getFirst().path())),
                blobs.stream().distinct().toList(),
                out.encode(commit.split(), spans));
    }

    private SizedFile sized(CommitBudget budget, SampleFormat.ChangedFile file) {
        SampleWorker.CommitChanges commit = budget.commit;
        List<SampleFormat.SampleSpan> alone =
                format.commit(config.name(), commit.subject(), budget.body, List.of(file));
        return new SizedFile(file, out.tokens(out.masked(commit.split(), alone)) - budget.head);
    }

    /** Splits a changed file into parts that each fit the budget. */
    private List<SizedFile> fitting(CommitBudget budget, String path, List<CodeChunk> chunks) throws IOException {
        SplittableRandom random = out.random(budget.commit.id() + path);
        List<String> hunks = new ArrayList<>();
        chunks.forEach(chunk -> hunks.addAll(List.of(chunk.patch().split("(?dm)(?=^@@ )"))));
        String base = base(chunks, random);
        // No token spans two lines with words, so a file with more such lines than tokens is too long without encoding
        // it.
        if (base.lines().filter(line -> !line.isBlank()).limit(budget.room + 1L).count() <= budget.room) {
            SizedFile whole = sized(budget, new SampleFormat.ChangedFile(path, base, hunks));
            if (whole.tokens <= budget.room) {
                return List.of(whole);
            }
        }
        List<SizedFile> fitting = new ArrayList<>();
        for (String hunk : hunks) {
            bisect(budget, path, hunk, fitting);
        }
        return fitting;
    }

    /** Adds a hunk, cut in two at a line until each part fits. */
    private void bisect(CommitBudget budget, String path, String hunk, List<SizedFile> fitting) {
        SizedFile file = sized(budget, new SampleFormat.ChangedFile(path, "", List.of(hunk)));
        List<String> lines = List.of(hunk.split("(?<=\n)"));
        if (file.tokens <= budget.room) {
            fitting.add(file);
        } else if (lines.size() > 1) {
            bisect(budget, path, String.join("", lines.subList(0, lines.size() / 2)), fitting);
            bisect(budget, path, String.join("", lines.subList(lines.size() / 2, lines.size())), fitting);
        } else {
            out.addTooLong();
        }
    }

    /** The file before the commit: all of it, or some lines around the change. */
    private String base(List<CodeChunk> chunks, SplittableRandom random) throws IOException {
        String old = out.redacted(chunks.getFirst().oldBlob());
        boolean whole = random.nextDouble() < config.get(DatasetKeys.WHOLE_BASE);
        int around = random.nextInt(config.get(DatasetKeys.BASE_LINES) + 1);
        if (whole || old.isEmpty()) {
            return old;
        }
        int from = Integer.MAX_VALUE;
        int to = 0;
        for (CodeChunk chunk : chunks) {
            Matcher hunk = HUNK.matcher(chunk.patch());
            while (hunk.find()) {
                int count = Integer.parseInt(hunk.group(2));
                int start = Integer.parseInt(hunk.group(1)) - Math.min(1, count);
                from = Math.min(from, start);
                to = Math.max(to, start + count);
            }
        }
        LineIndex lines = LineIndex.of(old.getBytes(StandardCharsets.UTF_8));
        return Chunker.text(lines, Math.max(0, from - around), Math.min(lines.count(), to + around));
    }
}
