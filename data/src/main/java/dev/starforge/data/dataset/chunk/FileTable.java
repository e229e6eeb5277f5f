package dev.starforge.data.dataset.chunk;

import dev.starforge.data.dataset.dedup.ComparedTexts;
import dev.starforge.data.dataset.filter.FileFilter;
import dev.starforge.data.dataset.io.JsonWriter;
import dev.starforge.text.TokenIdList;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The file versions of a build, a few bytes each: the compared text and the language. Their JSON lines wait in
 * {@code files.part} in the same order; {@link #finish} writes {@code files.jsonl} with the decision on each file.
 */
public final class FileTable {
    private static final String PART = "files.part";

    private final Path work;
    private final ComparedTexts texts;
    private final DropReasons dropped;

    /** For each file 1 + its number in {@link ComparedTexts}, or 0 if it is not compared. */
    private final TokenIdList textOf = new TokenIdList();

    private final List<String> languageOf = new ArrayList<>();
    private final Map<String, Long> languages = new TreeMap<>();
    private long kept;

    public FileTable(Path work, ComparedTexts texts, DropReasons dropped) {
        this.work = work;
        this.texts = texts;
        this.dropped = dropped;
    }

    public OutputStream openLines() throws IOException {
        return new BufferedOutputStream(Files.newOutputStream(work.resolve(PART)), 1 << 20);
    }

    /** Adds the files of the next commit and returns the number of the first. */
    public int add(ChunkWorker.CommitChunks commit) {
        int first = textOf.size();
        for (ChunkWorker.FileFact file : commit.files()) {
            boolean compared = file.grams().length > 0;
            textOf.add(
                    compared
                            ? 1
                                    + texts.add(
                                            ComparedTexts.TextKind.FILE,
                                            file.path() + "@" + commit.commit().substring(0, 12),
                                            file.hash(),
                                            file.grams())
                            : 0);
            file.reason().ifPresent(reason -> dropped.add(reason.label(), 1));
            kept += file.reason().isEmpty() ? 1 : 0;
            languageOf.add(file.language());
        }
        return first;
    }

    public int count() {
        return textOf.size();
    }

    public long kept() {
        return kept;
    }

    /** Kept files by language; empty before {@link #finish}. */
    public Map<String, Long> languages() {
        return languages;
    }

    boolean isDuplicate(int file) {
        int text = textOf.get(file) - 1;
        return text >= 0 && texts.isDuplicate(text);
    }

    /** Writes {@code files.jsonl}. */
    public void finish() throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(work.resolve(PART));
                OutputStream out =
                        new BufferedOutputStream(Files.newOutputStream(work.resolve("files.jsonl")), 1 << 20)) {
            for (int file = 0; file < textOf.size(); file++) {
                String line = lines.readLine();
                JsonWriter end = new JsonWriter().continueObject();
                boolean duplicate = isDuplicate(file);
                if (duplicate) {
                    end.put("reason", FileFilter.FilterReason.DUPLICATE.label());
                    end.put("duplicate_of", texts.name(texts.keeper(textOf.get(file) - 1)));
                    dropped.add(FileFilter.FilterReason.DUPLICATE.label(), 1);
                    kept--;
                }
                boolean keep = !duplicate && !line.contains(",\"reason\":\"");
                if (keep) {
                    languages.merge(languageOf.get(file), 1L, Long::sum);
                }
                end.put("kept", keep).end().newline();
                out.write(line.getBytes(StandardCharsets.UTF_8));
                out.write(end.bytes().array(), 0, end.bytes().size());
            }
        }
    }
}
