package dev.starforge.cli.hub;

import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Collectors;

/**
 * Downloads the files of a model, several at a time, and verifies their hashes. Before the first download it checks that no
 * selected file is a pickle and that the disk has enough space.
 */
public final class Pull {
    private static final int AT_ONCE = 4;
    private static final long TICK_MILLIS = 200;
    private static final int MOST_NAMES = 20;

    /** Default file patterns: weights, configuration and tokenizer in the top-level folder. */
    private static final List<String> DEFAULT = List.of(
            "*.safetensors", "*.gguf", "*.json", "*.jinja", "*.txt", "tokenizer.model", "README.md", "LICENSE*");

    private final Hub hub;
    private final ModelId id;
    private final List<String> include;
    private final List<PathMatcher> matchers;

    /** Receives the progress in bytes several times a second. */
    public interface Progress {
        void at(long done, long total);
    }

    /** @param include globs of the files to download; if empty, the default patterns */
    public Pull(Hub hub, ModelId id, List<String> include) {
        this.hub = hub;
        this.id = id;
        this.include = List.copyOf(include);
        this.matchers = (include.isEmpty() ? DEFAULT : include)
                .stream().map(Pull::matcher).toList();
    }

    /** Lists the files to download. */
    public PulledModel wanted() {
        Hub.Listing listing = hub.list(id);
        List<HubFile> wanted = listing.files().stream().filter(this::isIncluded).toList();
        requireDistinct(wanted);
        List<HubFile> pickles = wanted.stream().filter(HubFile::isPickle).toList();
        if (!pickles.isEmpty()) {
            throw new HubException(
                    pickles.getFirst().name() + " is a pickle file, which can execute code when loaded; convert it "
                            + "to safetensors or exclude it with --include");
        }
        if (include.isEmpty()) {
            requireOneModel(listing.files(), wanted);
        }
        if (wanted.isEmpty()) {
            throw new HubException(
                    id + ": --include " + String.join(" ", include) + " matches none of " + names(listing.files()));
        }
        return new PulledModel(id, hub.endpoint().toString(), listing.commit(), wanted);
    }

    private void requireOneModel(List<HubFile> all, List<HubFile> wanted) {
        if (wanted.stream().noneMatch(HubFile::isWeights)) {
            throw new HubException(id + ": no safetensors or .gguf file in the top-level folder"
                    + (all.stream().anyMatch(HubFile::isPickle)
                            ? "; the weights are pickle files, which can execute code when loaded; look for a"
                                    + " converted copy"
                            : "; select files with --include: " + names(all)));
        }
        List<HubFile> files =
                wanted.stream().filter(each -> each.name().endsWith(".gguf")).toList();
        if (files.size() > 1) {
            throw new HubException(id + ": several models; select one with --include, e.g. --include '"
                    + files.getFirst().name() + "': " + names(files));
        }
    }

    private static String names(List<HubFile> files) {
        return files.stream().limit(MOST_NAMES).map(HubFile::name).collect(Collectors.joining(", "))
                + (files.size() > MOST_NAMES ? " and " + (files.size() - MOST_NAMES) + " more" : "");
    }

    private static PathMatcher matcher(String glob) {
        try {
            return FileSystems.getDefault().getPathMatcher("glob:" + glob);
        } catch (PatternSyntaxException wrong) {
            throw new HubException(
                    "--include " + glob + ": not a pattern such as '*.gguf': " + wrong.getDescription(), wrong);
        }
    }

    private boolean isIncluded(HubFile file) {
        Path name;
        try {
            name = Path.of(file.name());
        } catch (InvalidPathException wrong) {
            throw new HubException(file.name() + ": not a file name on this system: " + wrong.getReason(), wrong);
        }
        return matchers.stream().anyMatch(matcher -> matcher.matches(name));
    }

    /** Rejects a listing with two versions of a file. */
    private static void requireDistinct(List<HubFile> files) {
        Set<String> names = new HashSet<>();
        for (HubFile file : files) {
            if (!names.add(file.name())) {
                throw new HubException(file.name() + ": listed twice; nothing was downloaded");
            }
        }
    }

    /** Downloads the files that are missing in the folder. */
    public void fetch(PulledModel model, Path folder, Progress progress) throws IOException {
        Files.createDirectories(folder);
        List<HubFile> missing = new ArrayList<>();
        for (HubFile file : model.files()) {
            Path there = folder.resolve(file.name());
            if (!Files.isRegularFile(there) || !file.matches(there)) {
                missing.add(file);
            }
        }
        requireRoom(folder, missing);
        long total = model.files().stream().mapToLong(HubFile::size).sum();
        AtomicLong done =
                new AtomicLong(total - missing.stream().mapToLong(HubFile::size).sum());
        List<Download> running = new CopyOnWriteArrayList<>();
        try (ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE)) {
            List<Future<?>> downloads = new ArrayList<>();
            for (HubFile file : missing) {
                Download download = new Download(hub, id, model.commit(), file, folder, done::addAndGet);
                downloads.add(threads.submit(() -> {
                    running.add(download);
                    download.run();
                    running.remove(download);
                    return file;
                }));
            }
            try {
                for (Future<?> download : downloads) {
                    await(download, running, () -> progress.at(done.get(), total));
                }
            } finally {
                threads.shutdownNow();
            }
        }
        progress.at(done.get(), total);
        model.write(folder);
    }

    private static void await(Future<?> download, List<Download> running, Runnable tick) throws IOException {
        while (true) {
            try {
                download.get(TICK_MILLIS, TimeUnit.MILLISECONDS);
                return;
            } catch (TimeoutException notYet) {
                running.forEach(Download::cutOffIfStalled);
                tick.run();
            } catch (ExecutionException failure) {
                switch (failure.getCause()) {
                    case IOException file -> throw file;
                    case RuntimeException foreseen -> throw foreseen;
                    case null, default -> throw new IllegalStateException(failure);
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new HubException("interrupted; run the same command again to resume", interrupted);
            }
        }
    }

    private static void requireRoom(Path folder, List<HubFile> missing) throws IOException {
        long needed = 0;
        for (HubFile file : missing) {
            Path partial = file.incomplete(folder);
            needed += file.size() - (Files.exists(partial) ? Files.size(partial) : 0);
        }
        long room = Files.getFileStore(folder).getUsableSpace();
        if (needed > room) {
            throw new HubException(
                    folder + ": not enough disk space: " + missing.size() + " files need " + (needed >> 20) + " MB, "
                            + (room >> 20) + " MB are free; free some space or pass another folder with --out");
        }
    }
}
