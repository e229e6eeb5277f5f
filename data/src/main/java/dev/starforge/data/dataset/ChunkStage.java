package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import dev.starforge.data.Hashes;
import dev.starforge.data.git.Blobs;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.GitPath;
import dev.starforge.data.git.Patch;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevCommit;

/**
 * The files of one commit, kept or dropped, and the chunks of those kept. A merge says nothing new about a file that it
 * took over from a parent; such a file was seen in the commit that wrote it.
 */
final class ChunkStage implements Ordered.Worker<ObjectId, ChunkStage.Result> {
    private static final Pattern WORD = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");
    private static final int MOST_FILES = 8;
    private static final int LONGEST_SIGNATURE = 5;
    private static final int MOST_IMPORTS = 30;

    /**
     * A file of a commit.
     *
     * @param grams of a file that was added, to find duplicates; empty for others
     */
    record FileFact(
            String path,
            String blob,
            long bytes,
            String language,
            Optional<FileFilter.Reason> reason,
            int redactions,
            long hash,
            long[] grams) {}

    /** A chunk and its 5-grams. */
    record ChunkFact(Chunk chunk, int file, long hash, long[] grams) {}

    record Result(String commit, long time, List<FileFact> files, List<ChunkFact> chunks, Redactions redactions) {}

    private final GitHistory.Reader reader;
    private final DatasetConfig config;
    private final FileFilter filter;
    private final Licences licences;
    private final ParserPool parsers;
    private final PathIndex paths;
    private final ShownBlobs shownBlobs;

    ChunkStage(GitHistory.Reader reader, DatasetConfig config, Licences licences, ParserPool parsers, PathIndex paths) {
        this.reader = reader;
        this.config = config;
        this.licences = licences;
        this.parsers = parsers;
        this.paths = paths;
        filter = new FileFilter(config.filters());
        shownBlobs = new ShownBlobs(reader.blobs());
    }

    @Override
    public Result apply(ObjectId id) {
        try {
            return result(reader.commit(id));
        } catch (IOException failure) {
            throw new DatasetException(
                    config.repository(), "commit " + id.name() + ": " + failure.getMessage(), failure);
        }
    }

    private Result result(RevCommit commit) throws IOException {
        List<FileFact> files = new ArrayList<>();
        List<ChunkFact> chunks = new ArrayList<>();
        Redactions redactions = Redactions.NONE;
        for (FileChange change : reader.changes(commit, config.copies())) {
            boolean gone = change.type() == FileChange.Type.D;
            if (!gone && reader.inherited(commit, change)) {
                continue;
            }
            String path = GitPath.text(change.path());
            Language language = Language.of(path);
            FileChange.Side seen = gone ? change.oldSide() : change.newSide();
            Optional<byte[]> content = reader.blobs().read(seen);
            Secrets secrets = new Secrets();
            byte[] shown = content.map(bytes -> shownBlobs.keep(seen.id(), secrets.redact(bytes)))
                    .orElse(new byte[0]);
            Optional<FileFilter.Reason> reason = reason(path, seen, content, secrets, language);
            if (gone) {
                if (reason.isEmpty()) {
                    chunks(commit, change, path, language, new byte[0], -1, chunks);
                }
                continue;
            }
            boolean added =
                    reason.isEmpty() && (change.type() == FileChange.Type.A || change.type() == FileChange.Type.C);
            Words words = Words.of(added ? new String(shown, StandardCharsets.UTF_8) : "");
            files.add(new FileFact(
                    path,
                    seen.id().name(),
                    content.map(bytes -> (long) bytes.length).orElse(-1L),
                    language.name(),
                    reason,
                    secrets.count(),
                    words.hash(),
                    added ? words.grams() : new long[0]));
            redactions = redactions.plus(Redactions.of(secrets));
            if (reason.isEmpty()) {
                chunks(commit, change, path, language, shown, files.size() - 1, chunks);
            }
        }
        return new Result(commit.name(), commit.getCommitTime(), files, chunks, redactions);
    }

    private Optional<FileFilter.Reason> reason(
            String path, FileChange.Side side, Optional<byte[]> content, Secrets secrets, Language language) {
        Optional<FileFilter.Reason> reason = filter.byName(path, side);
        if (reason.isPresent()) {
            return reason;
        }
        if (content.isEmpty()) {
            return Optional.of(FileFilter.Reason.TOO_LARGE);
        }
        reason = filter.byContent(content.get(), language);
        if (reason.isPresent()) {
            return reason;
        }
        if (config.filters().permissiveOnly() && !licences.permissive(path)) {
            return Optional.of(FileFilter.Reason.LICENCE);
        }
        return secrets.keys() + secrets.passwords() > config.filters().mostSecrets()
                ? Optional.of(FileFilter.Reason.SECRETS)
                : Optional.empty();
    }

    /** @param shown the new content without secrets; lines are where they were */
    private void chunks(
            RevCommit commit,
            FileChange change,
            String path,
            Language language,
            byte[] shown,
            int file,
            List<ChunkFact> chunks)
            throws IOException {
        Optional<byte[]> before = reader.blobs().read(change.oldSide());
        if (before.isEmpty() || change.oldSide().isLink() || change.oldSide().isSubmodule()) {
            return;
        }
        byte[] after = reader.blobs().read(change.newSide()).orElseThrow();
        List<Patch.Hunk> edits = Patch.of(change, before.get(), after).changes();
        if (edits.isEmpty()) {
            return;
        }
        byte[] shownBefore = shownBlobs.read(change.oldSide().id()).orElseThrow();
        if (!Blobs.isUtf8(shownBefore)) {
            return;
        }
        Outline oldOutline = outline(change.oldSide(), language, shownBefore);
        Outline newOutline = outline(change.newSide(), language, shown);
        List<String> imports = imports(newOutline, shown);
        String subject = commit.getShortMessage();
        for (Chunker.Part part :
                new Chunker(shownBefore, shown, oldOutline, newOutline, edits).parts(path, subject, language)) {
            String id = Hashes.sha256(commit.name() + '\n' + path + '\n' + chunks.size())
                    .substring(0, 16);
            Chunk chunk = new Chunk(
                    id,
                    commit.name(),
                    commit.getCommitTime(),
                    path,
                    change.newSide().id().name(),
                    change.oldSide().id().name(),
                    language.name(),
                    part.category(),
                    part.symbol(),
                    module(path),
                    part.lines(),
                    part.changed(),
                    part.oldCode(),
                    part.newCode(),
                    part.patch(),
                    imports,
                    part.newCode().isEmpty() ? List.of() : context(commit, path, language, part.newCode(), imports));
            Words words = Words.of(String.join("", chunk.added()));
            boolean compared = words.count() >= Math.max(1, config.duplicates().leastWords());
            // what adds no words has only itself to be known by: deletions are not copies of each other
            long hash = words.count() == 0 ? Hashes.first64(chunk.patch()) : words.hash();
            chunks.add(new ChunkFact(chunk, file, hash, compared ? words.grams() : new long[0]));
        }
    }

    private Outline outline(FileChange.Side side, Language language, byte[] content) {
        return side.exists() ? parsers.outline(side.id(), language, content) : Outline.NOTHING;
    }

    private static List<String> imports(Outline outline, byte[] content) {
        return outline.symbols().stream()
                .filter(symbol -> symbol.kind() == Outline.Kind.IMPORT)
                .limit(MOST_IMPORTS)
                .map(symbol ->
                        new String(content, symbol.from(), symbol.to() - symbol.from(), StandardCharsets.UTF_8).strip())
                .toList();
    }

    /** Folders of a path, without those that only say that there are sources. */
    private static String module(String path) {
        String folder = path.substring(0, Math.max(0, path.lastIndexOf('/')));
        return folder.replaceAll("(?:^|/)src/(?:main|test)/\\w+(?=/|$)", "")
                .replaceAll("^/|(?:^|/)src(?=/|$)", "")
                .replaceAll("^/", "")
                .replace('/', '.');
    }

    /** What a chunk uses from other files: declarations whose names it mentions, in files that it mentions. */
    private List<Chunk.Signature> context(
            RevCommit commit, String path, Language language, String code, List<String> imports) throws IOException {
        Set<String> used = words(code);
        Set<String> mentioned = new LinkedHashSet<>(used);
        imports.forEach(line -> mentioned.addAll(words(line)));
        List<Chunk.Signature> found = new ArrayList<>();
        int files = 0;
        for (String stem : mentioned) {
            for (String candidate : paths.named(stem)) {
                if (files >= MOST_FILES || found.size() >= config.samples().signatures()) {
                    return found;
                }
                if (candidate.equals(path) || !Language.of(candidate).name().equals(language.name())) {
                    continue;
                }
                Optional<ObjectId> blob = reader.blob(commit, candidate.getBytes(StandardCharsets.UTF_8));
                if (blob.isPresent()) {
                    files++;
                    signatures(candidate, blob.get(), language, used, found);
                }
            }
        }
        return found;
    }

    private void signatures(
            String path, ObjectId blob, Language language, Set<String> used, List<Chunk.Signature> found)
            throws IOException {
        Optional<byte[]> content = shownBlobs.read(blob);
        if (content.isEmpty() || Blobs.isBinary(content.get()) || !Blobs.isUtf8(content.get())) {
            return;
        }
        byte[] shown = content.get();
        Outline outline = parsers.outline(blob, language, shown);
        for (Outline.Symbol symbol : outline.symbols()) {
            boolean declares = symbol.kind() == Outline.Kind.TYPE || symbol.kind() == Outline.Kind.FUNCTION;
            if (declares
                    && used.contains(symbol.name())
                    && found.size() < config.samples().signatures()) {
                String text = new String(
                        shown,
                        symbol.from(),
                        Math.min(symbol.body(), shown.length) - symbol.from(),
                        StandardCharsets.UTF_8);
                String head = String.join(
                        "\n", text.strip().lines().limit(LONGEST_SIGNATURE).toList());
                found.add(new Chunk.Signature(path, outline.qualifiedName(symbol), head));
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
