package dev.starforge.bench.dataset;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Generates a long git history from the sources of several versions of a program. A commit changes one to five files: it adds the next
 * lines, updates the file to the next version, or rewrites some lines. Some commits move or remove a file, or merge a branch. The
 * history depends only on the sources, the number of commits and the seed.
 */
final class SyntheticHistory {
    private static final int LINES = 40;
    private static final String MAIN = "refs/heads/main";
    private static final String SIDE = "refs/heads/side";

    /** State of a file in the tree: its version, number of lines, and rewritten lines. */
    private record State(String name, int version, int lines, List<Integer> rewritten) {}

    private final OutputStream out;
    private final List<Map<String, String[]>> versions;
    private final Random random;
    private final TreeMap<String, State> tree = new TreeMap<>();
    private final List<String> waiting;
    private int mark;

    private SyntheticHistory(OutputStream out, List<Map<String, String[]>> versions, long seed) {
        this.out = out;
        this.versions = versions;
        random = new Random(seed);
        waiting = new ArrayList<>(new TreeSet<>(versions.getFirst().keySet()));
    }

    /** The files of a jar of sources, by path. */
    static Map<String, String> sources(Path jar) throws IOException {
        Map<String, String> texts = new TreeMap<>();
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            for (ZipEntry entry : zip.stream().toList()) {
                if (entry.getName().endsWith(".java") || entry.getName().endsWith(".properties")) {
                    texts.put(
                            entry.getName(),
                            new String(zip.getInputStream(entry).readAllBytes(), StandardCharsets.UTF_8));
                }
            }
        }
        return texts;
    }

    /**
     * Creates a bare repository with git.
     *
     * @param versions file contents by path, the oldest version first
     */
    static void make(Path folder, List<Map<String, String>> versions, int commits, long seed)
            throws IOException, InterruptedException {
        Files.createDirectories(folder);
        run(folder, "git", "init", "-q", "--bare", "-b", "main")
                .getOutputStream()
                .close();
        Process importer = start(folder, "git", "fast-import", "--quiet");
        try (OutputStream stream = new BufferedOutputStream(importer.getOutputStream(), 1 << 20)) {
            List<Map<String, String[]>> lines = new ArrayList<>();
            for (Map<String, String> version : versions) {
                Map<String, String[]> split = new TreeMap<>();
                version.forEach((path, text) -> split.put(path, text.split("(?<=\n)")));
                lines.add(split);
            }
            new SyntheticHistory(stream, lines, seed).write(commits);
        }
        if (importer.waitFor() != 0) {
            throw new IOException("git fast-import failed");
        }
    }

    private static Process start(Path folder, String... command) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        builder.environment().put("HOME", folder.toString());
        return builder.redirectError(ProcessBuilder.Redirect.INHERIT)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
    }

    private static Process run(Path folder, String... command) throws IOException, InterruptedException {
        Process process = start(folder, command);
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + " failed");
        }
        return process;
    }

    private void write(int commits) throws IOException {
        int tip = 0;
        while (mark < commits) {
            boolean merge = mark > 10 && mark + 3 <= commits && random.nextInt(40) == 0;
            if (merge) {
                TreeSet<String> side = new TreeSet<>();
                int sideTip = commit(SIDE, tip, change(side));
                int mainTip = commit(MAIN, tip, change(new TreeSet<>()));
                tip = merge(mainTip, sideTip, side);
            } else {
                tip = commit(MAIN, tip, change(new TreeSet<>()));
            }
        }
    }

    private int commit(String branch, int parent, String changes) throws IOException {
        begin(branch, "Change files\n\nNumber " + mark + ".\n");
        print(parent == 0 ? "" : "from :" + parent + "\n");
        print(changes + "\n");
        return mark;
    }

    /** Files that the side branch changed keep their state; the others get that of the main branch. */
    private int merge(int main, int side, TreeSet<String> touched) throws IOException {
        begin(MAIN, "Merge side\n");
        print("from :" + main + "\nmerge :" + side + "\n");
        for (String path : touched) {
            State state = tree.get(path);
            print(state == null ? "D " + path + "\n" : written(path, state));
        }
        print("\n");
        return mark;
    }

    private void begin(String branch, String message) throws IOException {
        print("commit " + branch + "\nmark :" + ++mark + "\n");
        print("committer Committer <committer@example.org> " + (1_500_000_000L + 3600L * mark) + " +0000\n");
        print("data " + message.length() + "\n" + message + "\n");
    }

    private String change(TreeSet<String> touched) {
        StringBuilder changes = new StringBuilder();
        for (int left = 1 + random.nextInt(5); left > 0; left--) {
            changes.append(changeOne(touched));
        }
        return changes.toString();
    }

    private String changeOne(TreeSet<String> touched) {
        int kind = random.nextInt(100);
        if (tree.isEmpty() || kind < 25 && !waiting.isEmpty()) {
            String name = waiting.remove(random.nextInt(waiting.size()));
            return put(touched, name, new State(name, 0, Math.min(2 * LINES, length(name, 0)), List.of()));
        }
        String path = new ArrayList<>(tree.keySet()).get(random.nextInt(tree.size()));
        State state = tree.get(path);
        int length = length(state.name, state.version);
        if (kind < 27) {
            tree.remove(path);
            touched.add(path);
            String moved = path.replaceFirst("(\\w+)(\\.\\w+)$", "$1" + random.nextInt(10) + "$2");
            return "D " + path + "\n" + put(touched, moved, state);
        }
        if (kind < 28) {
            tree.remove(path);
            touched.add(path);
            waiting.add(state.name);
            return "D " + path + "\n";
        }
        if (state.lines < length) {
            int lines = Math.min(length, state.lines + LINES);
            return put(touched, path, new State(state.name, state.version, lines, state.rewritten));
        }
        int next = state.version + 1;
        if (kind < 50 && next < versions.size() && versions.get(next).containsKey(state.name)) {
            return put(touched, path, new State(state.name, next, length(state.name, next), List.of()));
        }
        List<Integer> rewritten = new ArrayList<>(state.rewritten);
        for (int i = random.nextInt(6); i >= 0; i--) {
            rewritten.add(random.nextInt(length));
        }
        return put(touched, path, new State(state.name, state.version, state.lines, rewritten));
    }

    private int length(String name, int version) {
        return versions.get(version).get(name).length;
    }

    private String put(TreeSet<String> touched, String path, State state) {
        tree.put(path, state);
        touched.add(path);
        return written(path, state);
    }

    private String written(String path, State state) {
        String[] lines = Arrays.copyOf(versions.get(state.version).get(state.name), state.lines);
        for (int line : state.rewritten) {
            if (line < lines.length) {
                lines[line] = lines[line].replaceFirst("\\b(\\w+)\\b", "$1" + state.rewritten.size());
            }
        }
        String text = String.join("", lines);
        return "M 100644 inline " + path + "\ndata " + text.getBytes(StandardCharsets.UTF_8).length + "\n" + text
                + "\n";
    }

    private void print(String text) {
        try {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
