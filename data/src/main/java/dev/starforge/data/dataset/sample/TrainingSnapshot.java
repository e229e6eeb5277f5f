package dev.starforge.data.dataset.sample;

import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.data.dataset.chunk.Ledger;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.dedup.DuplicateFinder;
import dev.starforge.data.dataset.dedup.WordHashes;
import dev.starforge.data.dataset.filter.FileFilter;
import dev.starforge.data.dataset.filter.FolderLicenses;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.dataset.split.SplitBoundaries;
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
 * The files as they were at the last training commit: what a model of the repository's code is trained on besides its
 * changes. Of a later generation, those that its training commits touched. Filtered and without duplicates.
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
     * Reads the tree.
     *
     * @param later whether there are older generations, which have what this one did not touch
     */
    public static TrainingSnapshot of(
            GitHistory history,
            DatasetConfig config,
            Ledger ledger,
            SplitBoundaries split,
            FolderLicenses licences,
            Path work,
            boolean later)
            throws IOException {
        int last = ledger.lastTraining(split);
        if (!config.get(DatasetKeys.FILES) || last < 0) {
            return new TrainingSnapshot(history, config, Optional.empty(), new ArrayList<>(), 0);
        }
        ObjectId commit = ledger.commits().get(last);
        try (GitHistory.CommitReader reader = history.reader();
                DuplicateFinder duplicates =
                        new DuplicateFinder(work.resolve("snapshot.part"), config.get(DatasetKeys.SIMILARITY))) {
            Set<String> touched = new HashSet<>();
            for (int i = 0; later && i <= last; i++) {
                if (split.of(ledger.times()[i]) == Split.TRAIN) {
                    reader.changes(reader.commit(ledger.commits().get(i)), config.get(DatasetKeys.COPIES))
                            .forEach(change -> touched.add(GitPath.text(change.path())));
                }
            }
            List<SampleWorker.TreeFile> files = new ArrayList<>();
            FileFilter filter = new FileFilter(config);
            for (FileChange.Side side : reader.tree(reader.commit(commit))) {
                String path = GitPath.text(side.path());
                if (later && !touched.contains(path)
                        || filter.byName(path, side).isPresent()
                        || config.permissiveOnly() && !licences.permissive(path)) {
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

    /** How many files were left out for being like another one. */
    public int similar() {
        return similar;
    }

    /** Every file of any commit that the filters let through, by its path and text. */
    public static void each(GitHistory history, DatasetConfig config, ObjectId commit, BiConsumer<String, String> each)
            throws IOException {
        FileFilter filter = new FileFilter(config);
        try (GitHistory.CommitReader reader = history.reader()) {
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

    /** Every file by its path and text, as a document may show it. */
    public void each(BiConsumer<String, String> each) throws IOException {
        try (GitHistory.CommitReader reader = history.reader()) {
            for (SampleWorker.TreeFile file : files) {
                each.accept(file.path(), named(reader, file));
            }
        }
    }

    /** Takes off the files whose text is such; returns how many. */
    public int remove(Predicate<String> leaks) throws IOException {
        int before = files.size();
        try (GitHistory.CommitReader reader = history.reader()) {
            Iterator<SampleWorker.TreeFile> each = files.iterator();
            while (each.hasNext()) {
                if (leaks.test(named(reader, each.next()))) {
                    each.remove();
                }
            }
        }
        return before - files.size();
    }

    /** The texts without secrets, up to so many characters. */
    public List<String> texts(long most) {
        List<String> texts = new ArrayList<>();
        try (GitHistory.CommitReader reader = history.reader()) {
            long length = 0;
            for (SampleWorker.TreeFile file : files) {
                String text = shown(reader, file);
                length += text.length();
                if (length > most) {
                    break;
                }
                texts.add(text);
            }
        } catch (IOException failure) {
            throw new DatasetException(config.repository(), "cannot be read: " + failure.getMessage(), failure);
        }
        return texts;
    }

    private static String named(GitHistory.CommitReader reader, SampleWorker.TreeFile file) throws IOException {
        return Redactor.path(file.path()) + "\n" + shown(reader, file);
    }

    private static String shown(GitHistory.CommitReader reader, SampleWorker.TreeFile file) throws IOException {
        byte[] content = reader.blobs().read(file.blob()).orElseThrow();
        return new String(new Redactor().redact(content), StandardCharsets.UTF_8);
    }

    /** Files put together until they fill a document, by lot or so that what is used comes before its users. */
    public List<SampleWorker.FilesTask> tasks() throws IOException {
        List<SampleWorker.FilesTask> tasks = new ArrayList<>();
        if (files.isEmpty()) {
            return tasks;
        }
        List<SampleWorker.TreeFile> ordered = new ArrayList<>(files);
        Collections.shuffle(ordered, new Random(config.seed()));
        try (GitHistory.CommitReader reader = history.reader()) {
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
