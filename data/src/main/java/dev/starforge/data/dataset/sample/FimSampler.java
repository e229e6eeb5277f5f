package dev.starforge.data.dataset.sample;

import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.dataset.chunk.Chunker;
import dev.starforge.data.dataset.chunk.CodeChunk;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.git.LineIndex;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Fill-in-the-middle samples of chunks: the longest run of changed lines is the middle, the lines around it in the same
 * file are prefix and suffix, and declarations of other files that the chunk uses come before.
 */
final class FimSampler {
    /** Share of the room around the middle that goes to the prefix. */
    private static final double PREFIX_SHARE = 0.6;

    /** Share of the room around the middle that goes to declarations of other files. */
    private static final double CONTEXT_SHARE = 0.25;

    private static final int SPECIAL_TOKENS = 32;

    private final DatasetConfig config;
    private final SampleFormat format;
    private final SampleOutput out;

    // the file measured last; consecutive chunks are often of one file
    private String measuredBlob = "";
    private LineIndex measured = LineIndex.of(new byte[0]);
    private int[] lineTokens = new int[0];

    FimSampler(DatasetConfig config, SampleFormat format, SampleOutput out) {
        this.config = config;
        this.format = format;
        this.out = out;
    }

    void sample(SampleWorker.CommitChanges commit, CodeChunk chunk) throws IOException {
        boolean code = Language.of(chunk.path()).kind() == Language.ContentType.CODE;
        if (!format.supportsFim() || !code || chunk.changed().isEmpty()) {
            return;
        }
        CodeChunk.LineRange longest = chunk.changed().stream()
                .max(Comparator.comparingInt((CodeChunk.LineRange range) -> range.to() - range.from())
                        .thenComparing(Comparator.comparingInt(CodeChunk.LineRange::from)
                                .reversed()))
                .orElseThrow();
        measure(chunk.blob());
        if (longest.to() > measured.count()) {
            return;
        }
        int context = config.contextLength();
        int end = longest.to();
        String middle = Chunker.text(measured, longest.from(), end);
        int size = out.tokens(middle);
        while (size > context / 2 && end > longest.from() + 1) {
            end = longest.from() + (end - longest.from()) / 2;
            middle = Chunker.text(measured, longest.from(), end);
            size = out.tokens(middle);
        }
        int room = context - size - SPECIAL_TOKENS;
        if (middle.isBlank()) {
            return;
        }
        if (room < 0) {
            out.addTooLong();
            return;
        }
        emit(commit, chunk, new CodeChunk.LineRange(longest.from(), end), middle, room);
    }

    /** @param room tokens for the context, prefix and suffix; reduced until the sample fits */
    private void emit(
            SampleWorker.CommitChanges commit, CodeChunk chunk, CodeChunk.LineRange lines, String middle, int room) {
        boolean metadata = out.random(chunk.id()).nextDouble() < config.get(DatasetKeys.METADATA);
        boolean cuts = config.get(DatasetKeys.SPAN) == DatasetConfig.FimUnit.CURSOR && commit.split() == Split.TRAIN;
        boolean suffixFirst = out.random(chunk.id() + " order").nextDouble() < config.get(DatasetKeys.SPM);
        List<SampleFormat.SampleSpan> before = context(chunk, (int) (CONTEXT_SHARE * room));
        int left = room - (out.tokens(before) + out.tokens(chunk.path() + "\n"));
        SampleOutput.EncodedSample encoded;
        int over = 0;
        do {
            left -= over;
            int suffixEnd = suffixEnd(lines.to(), (int) ((1 - PREFIX_SHARE) * left));
            int prefixStart = prefixStart(lines.from(), left - sum(lines.to(), suffixEnd));
            List<SampleFormat.SampleSpan> spans = new ArrayList<>(before);
            SampleFormat.FimSplit whole = new SampleFormat.FimSplit(
                    Chunker.text(measured, prefixStart, lines.from()),
                    middle,
                    Chunker.text(measured, lines.to(), suffixEnd));
            SampleFormat.FimSplit split = cuts ? FimSpans.atCursor(whole, out.random(chunk.id() + " cursor")) : whole;
            spans.addAll(format.fim(chunk.path(), split, metadata, suffixFirst, false));
            spans.addAll(format.end(true));
            encoded = out.encode(commit.split(), spans);
            over = encoded.ids().length - config.contextLength();
        } while (over > 0 && left > 0);
        if (over > 0) {
            out.addTooLong();
            return;
        }
        out.add(
                commit.split(),
                SampleWorker.CHUNK + chunk.id(),
                new SampleOrigin(commit.id(), commit.time(), SampleOutput.folder(chunk.path())),
                List.of(chunk.blob()),
                encoded);
    }

    /** Declarations that the chunk uses, as files before its own. */
    private List<SampleFormat.SampleSpan> context(CodeChunk chunk, int room) {
        Map<String, StringBuilder> byPath = new LinkedHashMap<>();
        chunk.context()
                .forEach(signature -> byPath.computeIfAbsent(signature.path(), path -> new StringBuilder())
                        .append(signature.text())
                        .append('\n'));
        List<SampleFormat.SampleSpan> spans = new ArrayList<>();
        int used = 0;
        for (Map.Entry<String, StringBuilder> entry : byPath.entrySet()) {
            List<SampleFormat.SampleSpan> file = format.file(
                    new SampleFormat.SourceFile(entry.getKey(), entry.getValue().toString()), true, false);
            used += out.tokens(file);
            if (used > room) {
                break;
            }
            spans.addAll(file);
        }
        return spans;
    }

    private void measure(String blob) throws IOException {
        if (!blob.equals(measuredBlob)) {
            measuredBlob = blob;
            measured = LineIndex.of(out.redacted(blob).getBytes(StandardCharsets.UTF_8));
            lineTokens = new int[measured.count()];
        }
    }

    /** Tokens of a line encoded alone; within a text it may have fewer, since whitespace tokens span lines. */
    private int lineTokens(int line) {
        if (lineTokens[line] == 0) {
            lineTokens[line] = out.tokens(Chunker.text(measured, line, line + 1));
        }
        return lineTokens[line];
    }

    private int sum(int from, int to) {
        int sum = 0;
        for (int line = from; line < to; line++) {
            sum += lineTokens(line);
        }
        return sum;
    }

    /** The first line of the longest prefix before line {@code to} that fits into {@code room} tokens. */
    private int prefixStart(int to, int room) {
        int from = to;
        int left = room;
        while (from > 0 && lineTokens(from - 1) <= left) {
            left -= lineTokens(--from);
        }
        return from;
    }

    /** The end of the longest suffix from line {@code from} that fits into {@code room} tokens. */
    private int suffixEnd(int from, int room) {
        int to = from;
        int left = room;
        while (to < measured.count() && lineTokens(to) <= left) {
            left -= lineTokens(to++);
        }
        return to;
    }
}
