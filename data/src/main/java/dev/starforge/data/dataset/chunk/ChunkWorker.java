package dev.starforge.data.dataset.chunk;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.dedup.WordHashes;
import dev.starforge.data.dataset.filter.FileFilter;
import dev.starforge.data.dataset.filter.FolderLicenses;
import dev.starforge.data.dataset.io.JsonWriter;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.data.dataset.io.TempFile;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.dataset.parse.Outline;
import dev.starforge.data.dataset.parse.ParserPool;
import dev.starforge.data.dataset.redact.RedactedBlobs;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.git.BlobReader;
import dev.starforge.data.git.CommitReader;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.FilePatch;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.GitPath;
import dev.starforge.text.file.Hashes;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevCommit;

/**
 * Filters the files of a commit and cuts the changes of the kept ones into chunks. A file that a merge takes unchanged from a
 * parent is skipped: it is handled in the commit that wrote it.
 */
public final class ChunkWorker implements ParallelMap.BatchWorker<List<ObjectId>, ChunkWorker.ChunkBatch> {
    private static final Pattern WORD = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");
    private static final int MAX_FILES = 8;
    private static final int MAX_SIGNATURE_LINES = 5;
    private static final int MAX_IMPORTS = 30;

    /** The JSON lines of consecutive commits, and facts about their files and chunks. */
    public record ChunkBatch(TempFile chunkLines, TempFile fileLines, List<CommitChunks> commits) {}

    public record CommitChunks(String commit, List<FileFact> files, List<ChunkFact> chunks) {}

    /**
     * A file of a commit.
     *
     * @param grams 5-grams of an added file, to find duplicates; empty for other files
     */
    record FileFact(String path, String language, Optional<FileFilter.FilterReason> reason, long hash, long[] grams) {}

    /**
     * A chunk and its 5-grams.
     *
     * @param file its number among the files of the commit; -1 if the commit deleted it
     */
    record ChunkFact(String id, int file, long hash, long[] grams) {}

    private final CommitReader reader;
    private final DatasetConfig config;
    private final FileFilter filter;
    private final FolderLicenses licences;
    private final ParserPool parsers;
    private final PathIndex paths;
    private final RedactedBlobs shownBlobs;
    private final Supplier<TempFile> spools;
    private final Runnable advance;
    private final Map<String, Optional<ObjectId>> placed = new HashMap<>();

    /** @param advance called after every commit, from any worker thread */
    public ChunkWorker(
            CommitReader reader,
            DatasetConfig config,
            FolderLicenses licences,
            ParserPool parsers,
            PathIndex paths,
            Supplier<TempFile> spools,
            Runnable advance) {
        this.reader = reader;
        this.config = config;
        this.licences = licences;
        this.parsers = parsers;
        this.paths = paths;
        filter = new FileFilter(config);
        shownBlobs = new RedactedBlobs(reader.blobs());
        this.spools = spools;
        this.advance = advance;
    }

    @Override
    public ChunkBatch apply(List<ObjectId> commits) {
        ChunkBatch batch = new ChunkBatch(spools.get(), spools.get(), new ArrayList<>(commits.size()));
        JsonWriter chunkLines = new JsonWriter();
        JsonWriter fileLines = new JsonWriter();
        for (ObjectId id : commits) {
            ParallelMap.checkCancelled();
            try {
                batch.commits().add(result(reader.commit(id), chunkLines, fileLines));
            } catch (IOException failure) {
                throw new DatasetException(
                        config.repository(), "commit " + id.name() + ": " + failure.getMessage(), failure);
            }
            chunkLines.spill(batch.chunkLines());
            fileLines.spill(batch.fileLines());
            advance.run();
        }
        chunkLines.finish(batch.chunkLines());
        fileLines.finish(batch.fileLines());
        return batch;
    }

    private CommitChunks result(RevCommit commit, JsonWriter chunkLines, JsonWriter fileLines) throws IOException {
        placed.clear();
        List<FileFact> files = new ArrayList<>();
        List<ChunkFact> chunks = new ArrayList<>();
        for (FileChange change : reader.changes(commit, config.get(DatasetKeys.COPIES))) {
            boolean deleted = change.type() == FileChange.ChangeType.D;
            if (!deleted && reader.inherited(commit, change)) {
                continue;
            }
            String path = GitPath.text(change.path());
            String shownPath = Redactor.path(path);
            Language language = Language.of(path);
            FileChange.Side side = deleted ? change.oldSide() : change.newSide();
            Optional<byte[]> content = reader.blobs().read(side);
            Redactor secrets = new Redactor();
            byte[] shown = content.map(bytes -> shownBlobs.keep(side.id(), secrets.redact(bytes)))
                    .orElse(new byte[0]);
            Optional<FileFilter.FilterReason> reason = reason(path, side, content, secrets, language);
            if (deleted) {
                if (reason.isEmpty()) {
                    chunks(commit, change, path, language, new byte[0], -1, chunks, chunkLines);
                }
                continue;
            }
            boolean added = reason.isEmpty()
                    && (change.type() == FileChange.ChangeType.A || change.type() == FileChange.ChangeType.C);
            WordHashes words = WordHashes.of(added ? new String(shown, StandardCharsets.UTF_8) : "");
            files.add(new FileFact(
                    shownPath, language.name(), reason, words.hash(), added ? words.grams() : new long[0]));
            fileLines
                    .begin()
                    .put("path", shownPath)
                    .put("blob", side.id().name())
                    .put("commit", commit.name());
            fileLines.put("bytes", content.map(bytes -> (long) bytes.length).orElse(-1L));
            fileLines.put("language", language.name()).put("redactions", secrets.count());
            reason.ifPresent(why -> fileLines.put("reason", why.label()));
            fileLines.newline();
            if (reason.isEmpty()) {
                chunks(commit, change, path, language, shown, files.size() - 1, chunks, chunkLines);
            }
        }
        return new CommitChunks(commit.name(), files, chunks);
    }

    private Optional<FileFilter.FilterReason> reason(
            String path, FileChange.Side side, Optional<byte[]> content, Redactor secrets, Language language)
            throws IOException {
        Optional<FileFilter.FilterReason> reason = filter.byName(path, side);
        if (reason.isPresent()) {
            return reason;
        }
        if (content.isEmpty()) {
            return Optional.of(
                    reader.blobs().isMissing(side)
                            ? FileFilter.FilterReason.MISSING
                            : FileFilter.FilterReason.TOO_LARGE);
        }
        reason = filter.byContent(content.get(), language);
        if (reason.isPresent()) {
            return reason;
        }
        if (config.permissiveOnly() && !licences.permissive(path)) {
            return Optional.of(FileFilter.FilterReason.LICENCE);
        }
        return secrets.strong() > config.get(DatasetKeys.MAX_SECRETS)
                ? Optional.of(FileFilter.FilterReason.SECRETS)
                : Optional.empty();
    }

    /** @param shown the redacted new content */
    private void chunks(
            RevCommit commit,
            FileChange change,
            String path,
            Language language,
            byte[] shown,
            int file,
            List<ChunkFact> chunks,
            JsonWriter chunkLines)
            throws IOException {
        Optional<byte[]> before = reader.blobs().read(change.oldSide());
        if (before.isEmpty() || change.oldSide().isLink() || change.oldSide().isSubmodule()) {
            return;
        }
        byte[] after = reader.blobs().read(change.newSide()).orElseThrow();
        List<FilePatch.LineEdit> edits = FilePatch.of(change, before.get(), after, UnaryOperator.identity())
                .changes();
        if (edits.isEmpty()) {
            return;
        }
        byte[] shownBefore = shownBlobs.read(change.oldSide().id()).orElseThrow();
        if (!BlobReader.isUtf8(shownBefore)) {
            return;
        }
        Outline oldOutline = outline(change.oldSide(), language, shownBefore);
        Outline newOutline = outline(change.newSide(), language, shown);
        List<String> imports = imports(newOutline, shown);
        String subject = commit.getShortMessage();
        for (Chunker.ChunkContent part :
                new Chunker(shownBefore, shown, oldOutline, newOutline, edits).parts(path, subject, language)) {
            String id = Hashes.sha256(commit.name() + '\n' + path + '\n' + chunks.size())
                    .substring(0, 16);
            CodeChunk chunk = new CodeChunk(
                    id,
                    commit.name(),
                    GitHistory.time(commit),
                    Redactor.path(path),
                    change.newSide().id().name(),
                    change.oldSide().id().name(),
                    language.name(),
                    part.category(),
                    part.symbol(),
                    module(Redactor.path(path)),
                    part.lines(),
                    part.changed(),
                    part.oldCode(),
                    part.newCode(),
                    part.patch(),
                    imports,
                    part.newCode().isEmpty() ? List.of() : context(commit, path, language, part.newCode(), imports));
            ChunkFingerprint fingerprint = fingerprint(chunk, config.get(DatasetKeys.MIN_WORDS));
            chunks.add(new ChunkFact(id, file, fingerprint.hash, fingerprint.grams));
            chunk.write(chunkLines);
            chunkLines.newline();
        }
    }

    /** What chunks are compared by: the hash of the added words and, if there are enough of them, their 5-grams. */
    record ChunkFingerprint(long hash, long[] grams) {}

    static ChunkFingerprint fingerprint(CodeChunk chunk, int minWords) {
        WordHashes words = WordHashes.of(String.join("", chunk.added()));
        // without added words the patch is compared: deletions are not copies of each other
        long hash = words.count() == 0 ? Hashes.first64(chunk.patch()) : words.hash();
        return new ChunkFingerprint(hash, words.count() >= Math.max(1, minWords) ? words.grams() : new long[0]);
    }

    private Outline outline(FileChange.Side side, Language language, byte[] content) {
        return side.exists() ? parsers.outline(side.id(), language, content) : Outline.NOTHING;
    }

    private static List<String> imports(Outline outline, byte[] content) {
        return outline.symbols().stream()
                .filter(symbol -> symbol.kind() == Outline.SymbolKind.IMPORT)
                .limit(MAX_IMPORTS)
                .map(symbol ->
                        new String(content, symbol.from(), symbol.to() - symbol.from(), StandardCharsets.UTF_8).strip())
                .toList();
    }

    /** The folders of a path as a dotted name, without source roots such as src/main/java. */
    private static String module(String path) {
        String folder = path.substring(0, Math.max(0, path.lastIndexOf('/')));
        return folder.replaceAll("(?:^|/)src/(?:main|test)/\\w+(?=/|$)", "")
                .replaceAll("^/|(?:^|/)src(?=/|$)", "")
                .replaceAll("^/", "")
                .replace('/', '.');
    }

    /** Declarations that a chunk uses: those whose names it mentions, in files whose names it mentions. */
    private List<CodeChunk.ContextSignature> context(
            RevCommit commit, String path, Language language, String code, List<String> imports) throws IOException {
        Set<String> used = words(code);
        Set<String> mentioned = new LinkedHashSet<>(used);
        imports.forEach(line -> mentioned.addAll(words(line)));
        List<CodeChunk.ContextSignature> found = new ArrayList<>();
        int files = 0;
        for (String stem : mentioned) {
            for (String candidate : paths.named(stem)) {
                if (files >= MAX_FILES || found.size() >= config.get(DatasetKeys.SIGNATURES)) {
                    return found;
                }
                if (candidate.equals(path) || !Language.of(candidate).name().equals(language.name())) {
                    continue;
                }
                Optional<ObjectId> blob = placed.computeIfAbsent(
                        candidate, place -> reader.blob(commit, place.getBytes(StandardCharsets.UTF_8)));
                if (blob.isPresent()) {
                    files++;
                    signatures(candidate, blob.get(), language, used, found);
                }
            }
        }
        return found;
    }

    private void signatures(
            String path, ObjectId blob, Language language, Set<String> used, List<CodeChunk.ContextSignature> found)
            throws IOException {
        Optional<byte[]> content = shownBlobs.read(blob);
        if (content.isEmpty() || BlobReader.isBinary(content.get()) || !BlobReader.isUtf8(content.get())) {
            return;
        }
        byte[] shown = content.get();
        Outline outline = parsers.outline(blob, language, shown);
        for (Outline.Symbol symbol : outline.symbols()) {
            boolean declares = symbol.kind() == Outline.SymbolKind.TYPE || symbol.kind() == Outline.SymbolKind.FUNCTION;
            if (declares && used.contains(symbol.name()) && found.size() < config.get(DatasetKeys.SIGNATURES)) {
                String text = new String(
                        shown,
                        symbol.from(),
                        Math.min(symbol.body(), shown.length) - symbol.from(),
                        StandardCharsets.UTF_8);
                String head = String.join(
                        "\n", text.strip().lines().limit(MAX_SIGNATURE_LINES).toList());
                found.add(new CodeChunk.ContextSignature(Redactor.path(path), outline.qualifiedName(symbol), head));
            }
        }
    }

    private static Set<String> words(String text) {
        Set<String> words = new LinkedHashSet<>();
        Matcher matcher = WORD.matcher(text);
        while (matcher.find()) {
            words.add(matcher.group());
        }
        return words;
    }

    @Override
    public void close() {
        reader.close();
    }
}
