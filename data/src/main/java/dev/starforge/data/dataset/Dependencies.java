package dev.starforge.data.dataset;

import dev.starforge.data.git.GitHistory;
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

/** Orders files so that those whose names a file mentions stand before it, where that is possible. */
final class Dependencies {
    private static final Pattern WORD = Pattern.compile("[A-Za-z_][A-Za-z0-9_]*");

    private Dependencies() {}

    static List<SampleStage.TreeFile> order(List<SampleStage.TreeFile> files, GitHistory.Reader reader)
            throws IOException {
        Map<String, SampleStage.TreeFile> byStem = new HashMap<>();
        files.forEach(file -> byStem.putIfAbsent(PathIndex.stem(file.path()), file));
        Map<SampleStage.TreeFile, List<SampleStage.TreeFile>> uses = new HashMap<>();
        for (SampleStage.TreeFile file : files) {
            byte[] content = reader.blobs().read(file.blob()).orElseThrow();
            Matcher words = WORD.matcher(new String(content, StandardCharsets.UTF_8));
            Set<SampleStage.TreeFile> used = new LinkedHashSet<>();
            while (words.find()) {
                SampleStage.TreeFile other = byStem.get(words.group());
                if (other != null && other != file) {
                    used.add(other);
                }
            }
            uses.put(file, new ArrayList<>(used));
        }
        Set<SampleStage.TreeFile> ordered = new LinkedHashSet<>();
        Set<SampleStage.TreeFile> visited = new LinkedHashSet<>();
        ArrayDeque<SampleStage.TreeFile> path = new ArrayDeque<>();
        for (SampleStage.TreeFile root : files) {
            path.push(root);
            while (!path.isEmpty()) {
                SampleStage.TreeFile file = path.peek();
                List<SampleStage.TreeFile> open = visited.add(file)
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
