package dev.starforge.data.dataset.history;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.io.JsonWriter;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.data.dataset.io.TempFile;
import dev.starforge.data.dataset.redact.Redactions;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.git.BlobReader;
import dev.starforge.data.git.ByteBuilder;
import dev.starforge.data.git.CommitReader;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.FilePatch;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.GitPath;
import dev.starforge.data.git.LineIndex;
import dev.starforge.text.secrets.PrivateKeys;
import java.io.IOException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.eclipse.jgit.errors.LargeObjectException;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.revwalk.RevCommit;

/**
 * Writes one commit as a line of {@code commits.jsonl.gz}: author, time, message, and the patch of every changed file against
 * the first parent, with secrets redacted and counted.
 */
public final class HistoryWorker implements ParallelMap.BatchWorker<List<ObjectId>, HistoryWorker.HistoryBatch> {
    /** The JSON lines of consecutive commits, and facts about each. */
    public record HistoryBatch(TempFile json, List<CommitFacts> commits) {}

    public record CommitFacts(long time, List<String> paths, Redactions redactions) {}

    private static final PersonIdent UNKNOWN_PERSON = new PersonIdent("", "", Instant.EPOCH, ZoneOffset.UTC);

    private final CommitReader reader;
    private final Map<ObjectId, List<String>> names;
    private final DatasetConfig config;
    private final Supplier<TempFile> spools;
    private final Runnable advance;
    private final ByteBuilder patch = new ByteBuilder();
    private final JsonWriter json = new JsonWriter();

    /** @param advance called after every commit, from any worker thread */
    public HistoryWorker(
            CommitReader reader,
            Map<ObjectId, List<String>> names,
            DatasetConfig config,
            Supplier<TempFile> spools,
            Runnable advance) {
        this.reader = reader;
        this.names = names;
        this.config = config;
        this.spools = spools;
        this.advance = advance;
    }

    @Override
    public HistoryBatch apply(List<ObjectId> commits) {
        TempFile spool = spools.get();
        List<CommitFacts> lines = new ArrayList<>(commits.size());
        for (ObjectId id : commits) {
            ParallelMap.checkCancelled();
            try {
                lines.add(line(reader.commit(id), spool));
            } catch (IOException | LargeObjectException failure) {
                throw new DatasetException(
                        config.repository(), "commit " + id.name() + ": " + failure.getMessage(), failure);
            }
            advance.run();
        }
        json.finish(spool);
        return new HistoryBatch(spool, lines);
    }

    private CommitFacts line(RevCommit commit, TempFile spool) throws IOException {
        Redactor secrets = new Redactor();
        PersonIdent author = orUnknown(commit.getAuthorIdent());
        long time = GitHistory.time(commit);
        json.begin().put("hash", commit.name()).list("parents");
        for (RevCommit parent : commit.getParents()) {
            json.add(parent.name());
        }
        json.endList().put("is_merge", commit.getParentCount() > 1);
        json.put("author", person(author.getName(), Redactor.NAME));
        json.put("email", person(author.getEmailAddress(), Redactor.EMAIL));
        json.put("time", Instant.ofEpochSecond(time).toString()).put("unix_time", time);
        json.put("author_unix_time", author.getWhenAsInstant().getEpochSecond());
        String message = message(commit, config, secrets);
        int firstEnd = message.indexOf('\n');
        json.put("subject", firstEnd < 0 ? message : message.substring(0, firstEnd));
        json.put("body", firstEnd < 0 ? "" : message.substring(firstEnd).strip());
        List<String> branches = new ArrayList<>();
        List<String> tags = new ArrayList<>();
        for (String ref : names.getOrDefault(commit, List.of())) {
            String name = secrets.redact(ref);
            if (name.startsWith(GitHistory.TAG)) {
                tags.add(name.substring(GitHistory.TAG.length()));
            } else {
                branches.add(name);
            }
        }
        json.put("branches", branches).put("tags", tags);
        List<FileChange> changes = reader.changes(commit, config.get(DatasetKeys.COPIES));
        List<String> paths = new ArrayList<>();
        long additions = 0;
        long deletions = 0;
        json.list("diffs");
        for (FileChange change : changes) {
            FileDiff diff = diff(change, secrets);
            additions += diff.additions;
            deletions += diff.deletions;
            diff.write(json, change, patch);
            json.spill(spool);
            if (change.newSide().isFile()) {
                paths.add(GitPath.text(change.path()));
            }
        }
        json.endList().object("stats").put("files", changes.size());
        json.put("additions", additions).put("deletions", deletions).end().end().newline();
        json.spill(spool);
        return new CommitFacts(time, paths, secrets.redactions());
    }

    /** JGit returns null for a malformed author or committer line. */
    private static PersonIdent orUnknown(PersonIdent person) {
        return person != null ? person : UNKNOWN_PERSON;
    }

    private String person(String name, String placeholder) {
        return config.get(DatasetKeys.REDACT_PEOPLE) ? placeholder : name;
    }

    /** The commit message with secrets redacted, and names if configured. */
    public static String message(RevCommit commit, DatasetConfig config, Redactor secrets) {
        String message = commit.getFullMessage().strip();
        if (config.get(DatasetKeys.REDACT_PEOPLE)) {
            message = Redactor.withoutNames(
                    message,
                    orUnknown(commit.getAuthorIdent()).getName(),
                    orUnknown(commit.getCommitterIdent()).getName());
        }
        return secrets.redact(message);
    }

    private record FileDiff(
            boolean binary, boolean tooLarge, boolean missing, int additions, int deletions, int redactions) {
        void write(JsonWriter json, FileChange change, ByteBuilder patch) {
            json.begin().put("path", Redactor.path(GitPath.text(change.path())));
            if (change.oldSide().exists() && change.newSide().exists()) {
                json.put("old_path", Redactor.path(GitPath.text(change.oldSide().path())));
            }
            json.put("type", change.type().name());
            if (change.similarity() > 0) {
                json.put("similarity", change.similarity());
            }
            json.put("old_blob", change.oldSide().id().name());
            json.put("new_blob", change.newSide().id().name());
            json.put("old_mode", Integer.toOctalString(change.oldSide().mode()));
            json.put("new_mode", Integer.toOctalString(change.newSide().mode()));
            json.put("additions", additions).put("deletions", deletions).put("is_binary", binary);
            if (tooLarge) {
                json.put("too_large", true);
            }
            if (missing) {
                json.put("missing", true);
            }
            if (redactions > 0) {
                json.put("redactions", redactions);
            }
            json.put("patch", patch).end();
        }
    }

    /** Compares both contents; the patch is left in {@link #patch}. */
    private FileDiff diff(FileChange change, Redactor secrets) throws IOException {
        patch.clear();
        BlobReader blobs = reader.blobs();
        BlobReader.ContentKind before = blobs.kind(change.oldSide());
        BlobReader.ContentKind after = blobs.kind(change.newSide());
        if (before != BlobReader.ContentKind.TEXT || after != BlobReader.ContentKind.TEXT) {
            boolean tooLarge = before == BlobReader.ContentKind.TOO_LARGE || after == BlobReader.ContentKind.TOO_LARGE;
            boolean missing = before == BlobReader.ContentKind.MISSING || after == BlobReader.ContentKind.MISSING;
            return new FileDiff(
                    before == BlobReader.ContentKind.BINARY || after == BlobReader.ContentKind.BINARY || tooLarge,
                    tooLarge,
                    missing,
                    0,
                    0,
                    0);
        }
        byte[] oldContent = blobs.read(change.oldSide()).orElseThrow();
        byte[] newContent = blobs.read(change.newSide()).orElseThrow();
        FilePatch difference = FilePatch.of(change, oldContent, newContent, Redactor::path);
        String path = Redactor.path(GitPath.text(change.path()));
        Redactor found = new Redactor(path);
        if (!PrivateKeys.find(oldContent).isEmpty()
                || !PrivateKeys.find(newContent).isEmpty()) {
            Redactor removed = new Redactor(path);
            LineIndex shownOld = LineIndex.of(removed.redact(oldContent));
            LineIndex shownNew = LineIndex.of(found.redact(newContent));
            found = found.count() > 0 ? found : removed;
            difference.write(patch, (out, lines, line) -> {
                LineIndex shown = lines == difference.oldLines() ? shownOld : shownNew;
                out.add(shown.bytes(), shown.start(line), shown.end(line));
            });
        } else {
            difference.write(patch, found);
        }
        secrets.add(found);
        return new FileDiff(false, false, false, difference.additions(), difference.deletions(), found.count());
    }

    @Override
    public void close() {
        reader.close();
    }
}
