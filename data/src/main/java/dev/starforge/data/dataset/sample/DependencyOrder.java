package dev.starforge.data.dataset.sample;

import dev.starforge.data.dataset.chunk.PathIndex;
import dev.starforge.data.git.CommitReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Orders files so that a file comes after the files whose names it mentions, except in cycles. */
final class DependencyOrder {
    private static final Pattern WORD = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");

    private DependencyOrder() {}

    static List<SampleWorker.TreeFile> order(List<SampleWorker.TreeFile> files, CommitReader reader)
            throws IOException {
        Map<String, SampleWorker.TreeFile> byStem = new HashMap<>();
        files.forEach(file -> byStem.putIfAbsent(PathIndex.stem(file.path()), file));
        Map<SampleWorker.TreeFile, List<SampleWorker.TreeFile>> uses = new HashMap<>();
        for (SampleWorker.TreeFile file : files) {
            byte[] content = reader.blobs().read(file.blob()).orElseThrow();
            Matcher words = WORD.matcher(new String(content, StandardCharsets.UTF_8));
            Set<SampleWorker.TreeFile> used = new LinkedHashSet<>();
            while (words.find()) {
                SampleWorker.TreeFile other = byStem.get(words.group());
                if (other != null && other != file) {
                    used.add(other);
                }
            }
            uses.put(file, new ArrayList<>(used));
        }
        Set<SampleWorker.TreeFile> ordered = new LinkedHashSet<>();
        Set<SampleWorker.TreeFile> visited = new LinkedHashSet<>();
        ArrayDeque<SampleWorker.TreeFile> path = new ArrayDeque<>();
        for (SampleWorker.TreeFile root : files) {
            path.push(root);
            while (!path.isEmpty()) {
                SampleWorker.TreeFile file = path.peek();
                List<SampleWorker.TreeFile> open = visited.add(file)
                        ? uses.getOrDefault(file, List.of()).stream()
                                .filter(used -> !visited.contains(used))
                                .toList()
                        : List.of();
                if (open.isEmpty()) {
                    ordered.add(path.pop());
                } else {
                    open.forEach(path::push);
                }
            }
        }
        return new ArrayList<>(ordered);
    }
}
