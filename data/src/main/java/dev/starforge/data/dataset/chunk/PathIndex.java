package dev.starforge.data.dataset.chunk;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** All paths of a history by file name without extension: the files that may declare a type of that name. */
public final class PathIndex {
    private final Map<String, TreeSet<String>> byStem = new HashMap<>();

    public void add(String path) {
        byStem.computeIfAbsent(stem(path), key -> new TreeSet<>()).add(path);
    }

    List<String> named(String stem) {
        return List.copyOf(byStem.getOrDefault(stem, new TreeSet<>()));
    }

    public static String stem(String path) {
        String name = path.substring(path.lastIndexOf('/') + 1);
        int dot = name.indexOf('.', 1);
        return dot < 0 ? name : name.substring(0, dot);
    }
}
