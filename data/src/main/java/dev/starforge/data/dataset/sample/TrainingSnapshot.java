package dev.starforge.data.dataset.sample;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.dedup.DuplicateFinder;
import dev.starforge.data.dataset.dedup.WordHashes;
import dev.starforge.data.dataset.filter.FileFilter;
import dev.starforge.data.dataset.filter.FolderLicenses;
import dev.starforge.data.dataset.history.CommitTable;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.dataset.split.SplitBoundaries;
import dev.starforge.data.git.CommitReader;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.GitPath;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevCommit;

/**
 * The repository's files at the last training commit, filtered and without duplicates: training data in addition to the
 * changes. A later generation takes only the files that its training commits touched.
 */
public final class TrainingSnapshot {
    private static final int BYTES_PER_TOKEN = 3;

    private final GitHistory history;
    private final DatasetConfig config;
    private final Optional<ObjectId> commit;
    private final List<SampleWorker.TreeFile> files;
    private final int similar;

    private TrainingSnapshot(
            GitHistory history,
            DatasetConfig config,
            Optional<ObjectId> commit,
            List<SampleWorker.TreeFile> files,
            int similar) {
        this.history = history;
        this.config = config;
        this.commit = commit;
        this.files = files;
        this.similar = similar;
    }

    /**
     * Reads the tree of the last training commit.
     *
     * @param later true if older generations exist, which have the untouched files
     */
    public static TrainingSnapshot of(
            GitHistory history,
            DatasetConfig config,
            CommitTable commits,
            SplitBoundaries boundaries,
            FolderLicenses licenses,
            Path work,
            boolean later)
            throws IOException {
        int last = commits.lastTraining(boundaries);
        if (!config.get(DatasetKeys.FILES) || last < 0) {
            return none(history, config);
        }
        ObjectId commit = commits.ids().get(last);
        try (CommitReader reader = history.reader();
                DuplicateFinder duplicates =
                        new DuplicateFinder(work.resolve("snapshot.part"), config.get(DatasetKeys.SIMILARITY))) {
            Set<String> touched = new HashSet<>();
            for (int i = 0; later && i <= last; i++) {
                if (commits.isTraining(i, boundaries)) {
                    reader.changes(reader.commit(commits.ids().get(i)), config.get(DatasetKeys.COPIES))
                            .forEach(change -> touched.add(GitPath.text(change.path())));
                }
            }
            List<SampleWorker.TreeFile> files = new ArrayList<>();
            FileFilter filter = new FileFilter(config);
            for (FileChange.Side side : reader.tree(reader.commit(commit))) {
                String path = GitPath.text(side.path());
                if (later && !touched.contains(path)
                        || filter.byName(path, side).isPresent()
                        || config.permissiveOnly() && !licenses.permissive(path)) {
                    continue;
                }
                Optional<byte[]> content = reader.blobs().read(side);
                Language language = Language.of(path);
                if (content.isEmpty()
                        || filter.byContent(content.get(), language).isPresent()) {
                    continue;
                }
                Redactor secrets = new Redactor();
                WordHashes words = WordHashes.of(new String(secrets.redact(content.get()), StandardCharsets.UTF_8));
                if (secrets.strong() <= config.get(DatasetKeys.MAX_SECRETS)) {
                    duplicates.add(0, words.hash(), words.grams());
                    files.add(new SampleWorker.TreeFile(path, side.id()));
                }
            }
            int[] keeper = duplicates.find();
            List<SampleWorker.TreeFile> kept = new ArrayList<>();
            for (int i = 0; i < files.size(); i++) {
                if (keeper[i] == DuplicateFinder.KEPT) {
                    kept.add(files.get(i));
                }
            }
            return new TrainingSnapshot(history, config, Optional.of(commit), kept, files.size() - kept.size());
        }
    }

    /** A snapshot without files. */
    public static TrainingSnapshot none(GitHistory history, DatasetConfig config) {
        return new TrainingSnapshot(history, config, Optional.empty(), new ArrayList<>(), 0);
    }

    /** The number of files that were left out because they are similar to another one. */
    public int similar() {
        return similar;
    }

    /** Visits path and redacted text of every file of a commit that passes the filters. */
    public static void each(GitHistory history, DatasetConfig config, ObjectId commit, BiConsumer<String, String> each)
            throws IOException {
        FileFilter filter = new FileFilter(config);
        try (CommitReader reader = history.reader()) {
            for (FileChange.Side side : reader.tree(reader.commit(commit))) {
                String path = GitPath.text(side.path());
                Optional<byte[]> content = filter.byName(path, side).isPresent()
                        ? Optional.empty()
                        : reader.blobs().read(side);
                if (content.isPresent()
                        && filter.byContent(content.get(), Language.of(path)).isEmpty()) {
                    each.accept(path, new String(new Redactor().redact(content.get()), StandardCharsets.UTF_8));
                }
            }
        }
    }

    /** Visits path and text of every file, as documents show it. */
    public void each(BiConsumer<String, String> each) throws IOException {
        try (CommitReader reader = history.reader()) {
            for (SampleWorker.TreeFile file : files) {
                each.accept(file.path(), withPath(reader, file));
            }
        }
    }

    /** Removes the files whose text matches; returns how many. */
    public int remove(Predicate<String> leaks) throws IOException {
        int before = files.size();
        try (CommitReader reader = history.reader()) {
            Iterator<SampleWorker.TreeFile> each = files.iterator();
            while (each.hasNext()) {
                if (leaks.test(withPath(reader, each.next()))) {
                    each.remove();
                }
            }
        }
        return before - files.size();
    }

    /** The redacted texts, at most {@code max} characters in total. */
    public List<String> texts(long max) {
        List<String> texts = new ArrayList<>();
        try (CommitReader reader = history.reader()) {
            long length = 0;
            for (SampleWorker.TreeFile file : files) {
                String text = redacted(reader, file);
                length += text.length();
                if (length > max) {
                    break;
                }
                texts.add(text);
            }
        } catch (IOException failure) {
            throw new DatasetException(config.repository(), "cannot be read: " + failure.getMessage(), failure);
        }
        return texts;
    }

    private static String withPath(CommitReader reader, SampleWorker.TreeFile file) throws IOException {
        return Redactor.path(file.path()) + "\n" + redacted(reader, file);
    }

    private static String redacted(CommitReader reader, SampleWorker.TreeFile file) throws IOException {
        byte[] content = reader.blobs().read(file.blob()).orElseThrow();
        return new String(new Redactor().redact(content), StandardCharsets.UTF_8);
    }

    /** Groups files into documents of about the context length, in random order or dependencies first. */
    public List<SampleWorker.FilesTask> tasks() throws IOException {
        List<SampleWorker.FilesTask> tasks = new ArrayList<>();
        if (files.isEmpty()) {
            return tasks;
        }
        List<SampleWorker.TreeFile> ordered = new ArrayList<>(files);
        Collections.shuffle(ordered, new Random(config.seed()));
        try (CommitReader reader = history.reader()) {
            if (config.get(DatasetKeys.ORDER) == DatasetConfig.FileOrder.DEPENDENCY) {
                ordered = DependencyOrder.order(ordered, reader);
            }
            RevCommit from = reader.commit(commit.orElseThrow());
            List<SampleWorker.TreeFile> open = new ArrayList<>();
            long size = 0;
            long room = (long) config.contextLength() * BYTES_PER_TOKEN;
            for (SampleWorker.TreeFile file : ordered) {
                long length = reader.blobs().read(file.blob()).orElseThrow().length;
                if (size + length > room && !open.isEmpty()) {
                    tasks.add(new SampleWorker.FilesTask(from.name(), GitHistory.time(from), List.copyOf(open)));
                    open.clear();
                    size = 0;
                }
                open.add(file);
                size += length;
            }
            tasks.add(new SampleWorker.FilesTask(from.name(), GitHistory.time(from), List.copyOf(open)));
        }
        return tasks;
    }
}
