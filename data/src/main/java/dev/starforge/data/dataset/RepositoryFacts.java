package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.git.BlobReader;
import dev.starforge.data.git.CommitReader;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.GitHistory;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.eclipse.jgit.lib.ObjectId;

/**
 * The size of a repository: its history, and the code of its newest commit. Nothing is filtered, so a dataset has less.
 *
 * @param files text files of a programming language
 * @param lines of code by language, blank ones and comments included
 * @param work what a dataset of the whole history takes
 */
public record RepositoryFacts(String head, int commits, int files, Map<String, Long> lines, DatasetEstimate work) {
    private static final int LARGEST_FILE = 4 << 20;

    public RepositoryFacts {
        lines = Map.copyOf(lines);
    }

    /** @param skipMissing whether blobs that a partial clone lacks are skipped, otherwise they are an error */
    public static RepositoryFacts of(Path repository, boolean skipMissing) {
        try (GitHistory history = GitHistory.open(repository, LARGEST_FILE, skipMissing);
                CommitReader reader = history.reader()) {
            ObjectId head = history.resolve("HEAD");
            List<ObjectId> commits = history.commits(head, List.of());
            if (!skipMissing) {
                history.firstMissing(commits, () -> {}).ifPresent(blob -> {
                    throw history.missing(blob);
                });
            }
            Map<String, Long> lines = new TreeMap<>();
            int files = 0;
            for (FileChange.Side side : reader.tree(reader.commit(head))) {
                Language language = Language.of(new String(side.path(), StandardCharsets.UTF_8));
                if (!side.isFile()
                        || language.kind() != Language.ContentType.CODE
                        || language.equals(Language.UNKNOWN)) {
                    continue;
                }
                Optional<byte[]> content = reader.blobs().read(side);
                if (content.isPresent() && !BlobReader.isBinary(content.get())) {
                    files++;
                    lines.merge(language.name(), lines(content.get()), Long::sum);
                }
            }
            return new RepositoryFacts(head.name(), commits.size(), files, lines, DatasetEstimate.of(history, commits));
        } catch (IOException failure) {
            throw new DatasetException(repository, "cannot be read: " + failure.getMessage(), failure);
        }
    }

    private static long lines(byte[] content) {
        long ends = 0;
        for (byte b : content) {
            ends += b == '\n' ? 1 : 0;
        }
        return content.length > 0 && content[content.length - 1] != '\n' ? ends + 1 : ends;
    }

    /** Lines in all languages. */
    public long allLines() {
        return lines.values().stream().mapToLong(Long::longValue).sum();
    }
}
