package dev.starforge.data.dataset.sample;

import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.dataset.parse.Outline;
import dev.starforge.data.dataset.parse.ParserPool;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.text.file.Hashes;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/** Samples of files of the training snapshot, some with spans to fill in. */
final class FileSampler {
    private final DatasetConfig config;
    private final SampleFormat format;
    private final ParserPool parsers;
    private final SampleOutput out;

    FileSampler(DatasetConfig config, SampleFormat format, ParserPool parsers, SampleOutput out) {
        this.config = config;
        this.format = format;
        this.parsers = parsers;
        this.out = out;
    }

    /** A file in a document, with what the sample needs of it. */
    private record OutlinedFile(SampleFormat.SourceFile source, Outline outline, String blob) {}

    void sample(SampleWorker.FilesTask task) throws IOException {
        List<OutlinedFile> files = new ArrayList<>();
        for (SampleWorker.TreeFile file : task.files()) {
            String blob = file.blob().name();
            String code = out.redacted(blob);
            Outline outline = config.get(DatasetKeys.SPAN) == DatasetConfig.FimUnit.NODE
                    ? parsers.outlineWithBlocks(
                            file.blob(), Language.of(file.path()), code.getBytes(StandardCharsets.UTF_8))
                    : Outline.NOTHING;
            files.add(new OutlinedFile(new SampleFormat.SourceFile(Redactor.path(file.path()), code), outline, blob));
        }
        document(task, files, "0");
    }

    /**
     * Adds one document, or its two halves if it is too long.
     *
     * @param part distinguishes the documents of a task: "0", then "a" and "b" for each half
     */
    private void document(SampleWorker.FilesTask task, List<OutlinedFile> files, String part) {
        SampleFormat.SourceFile first = files.getFirst().source;
        List<String> blobs = files.stream().map(OutlinedFile::blob).toList();
        String id = "files-"
                + Hashes.sha256(task.commit() + first.path() + blobs + part).substring(0, 16);
        SampleOutput.EncodedSample encoded = out.encode(Split.TRAIN, spans(id, files));
        if (encoded.ids().length <= config.contextLength()) {
            SampleOrigin origin = new SampleOrigin(task.commit(), task.time(), SampleOutput.folder(first.path()));
            out.add(Split.TRAIN, id, origin, blobs, encoded);
            return;
        }
        int half = files.size() / 2;
        if (half > 0) {
            document(task, files.subList(0, half), part + "a");
            document(task, files.subList(half, files.size()), part + "b");
            return;
        }
        List<String> lines = List.of(first.code().split("(?<=\n)"));
        int middle = lines.size() / 2;
        if (middle > 0) {
            document(task, List.of(partOf(files.getFirst(), lines.subList(0, middle))), part + "a");
            document(task, List.of(partOf(files.getFirst(), lines.subList(middle, lines.size()))), part + "b");
        } else {
            out.addTooLong();
        }
    }

    private static OutlinedFile partOf(OutlinedFile file, List<String> lines) {
        SampleFormat.SourceFile source = new SampleFormat.SourceFile(file.source.path(), String.join("", lines));
        return new OutlinedFile(source, Outline.NOTHING, file.blob);
    }

    private List<SampleFormat.SampleSpan> spans(String id, List<OutlinedFile> files) {
        SplittableRandom random = out.random(id);
        boolean metadata = random.nextDouble() < config.get(DatasetKeys.METADATA);
        boolean fim = format.supportsFim() && random.nextDouble() < config.get(DatasetKeys.FIM_DOCUMENTS);
        List<SampleFormat.SampleSpan> spans = new ArrayList<>(format.begin(config.name(), metadata));
        for (OutlinedFile file : files) {
            SampleFormat.SourceFile source = file.source;
            if (fim && random.nextDouble() < config.get(DatasetKeys.FIM_FILES)) {
                boolean suffixFirst = random.nextDouble() < config.get(DatasetKeys.SPM);
                SampleFormat.FimSplit split =
                        FimSpans.choose(config.get(DatasetKeys.SPAN), source.code(), file.outline, random);
                spans.addAll(format.fim(source.path(), split, metadata, suffixFirst, true));
            } else {
                spans.addAll(format.file(source, metadata, true));
            }
        }
        spans.addAll(format.end(true));
        return spans;
    }
}
