import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.zip.ZipFile;

/**
 * Writes a long git history to standard output, for {@code git fast-import}: {@code java History.java JAR COMMITS}.
 *
 * <p>The texts of a sources jar appear piece by piece, as if people had written them: a commit touches one to five files,
 * adds the next lines of each or rewrites some that are there, now and then moves or removes a file or merges a short
 * branch. The same jar and number always give the same history.
 */
final class History {
    private static final int LINES = 40;

    private final OutputStream out = new BufferedOutputStream(System.out, 1 << 20);
    private final Random random = new Random(11);
    private final List<String> names = new ArrayList<>();
    private final List<String[]> texts = new ArrayList<>();
    /** What the tree holds: the path, the number of the text, how many of its lines are there, which were rewritten. */
    private final TreeMap<String, State> tree = new TreeMap<>();

    private final List<Integer> waiting = new ArrayList<>();
    private int mark;

    private record State(int text, int lines, List<Integer> rewritten) {}

    public static void main(String[] args) throws IOException {
        History history = new History();
        history.read(Path.of(args[0]));
        history.write(Integer.parseInt(args[1]));
    }

    private void read(Path jar) throws IOException {
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            for (var entry : zip.stream().filter(e -> !e.isDirectory()).toList()) {
                if (entry.getName().endsWith(".java") || entry.getName().endsWith(".properties")) {
                    String text = new String(zip.getInputStream(entry).readAllBytes(), StandardCharsets.UTF_8);
                    waiting.add(names.size());
                    names.add(entry.getName());
                    texts.add(text.split("(?<=\n)"));
                }
            }
        }
    }

    private void write(int commits) throws IOException {
        int tip = 0;
        for (int i = 0; i < commits; i++) {
            boolean merge = i > 10 && random.nextInt(40) == 0;
            if (merge) {
                int side = commit(i, "refs/heads/side", tip, 0);
                int main = commit(i, "refs/heads/main", tip, 0);
                tip = commit(i, "refs/heads/main", main, side);
                i += 2;
            } else {
                tip = commit(i, "refs/heads/main", tip, 0);
            }
        }
        out.flush();
    }

    private int commit(int number, String branch, int parent, int merged) throws IOException {
        StringBuilder changes = new StringBuilder();
        int touched = 1 + random.nextInt(5);
        for (int i = 0; i < touched && merged == 0; i++) {
            change(changes);
        }
        String message = merged != 0 ? "Merge side" : "Change " + touched + " files\n\nNumber " + number + ".\n";
        print("commit " + branch + "\nmark :" + ++mark + "\n");
        print("committer Somebody <somebody@example.org> " + (1_500_000_000L + 3600L * mark) + " +0000\n");
        data(message.getBytes(StandardCharsets.UTF_8));
        if (parent != 0) {
            print("from :" + parent + "\n");
        }
        if (merged != 0) {
            print("merge :" + merged + "\n");
            // a merge takes both sides: what the side branch holds is written again
            tree.forEach((path, state) -> modify(changes, path, state));
        }
        print(changes.toString());
        print("\n");
        return mark;
    }

    private void change(StringBuilder changes) {
        int kind = random.nextInt(100);
        if (tree.isEmpty() || kind < 25 && !waiting.isEmpty()) {
            int text = waiting.remove(random.nextInt(waiting.size()));
            put(changes, names.get(text), new State(text, Math.min(LINES * 2, texts.get(text).length), List.of()));
            return;
        }
        String path = tree.ceilingKey(tree.keySet().stream()
                .skip(random.nextInt(tree.size()))
                .findFirst()
                .orElseThrow());
        State state = tree.get(path);
        int length = texts.get(state.text).length;
        if (kind < 27) {
            tree.remove(path);
            changes.append("D ").append(path).append('\n');
            String moved = path.replaceFirst("(\\w+)(\\.\\w+)$", "$1" + random.nextInt(10) + "$2");
            put(changes, moved, state);
        } else if (kind < 28) {
            tree.remove(path);
            waiting.add(state.text);
            changes.append("D ").append(path).append('\n');
        } else if (state.lines < length) {
            put(changes, path, new State(state.text, Math.min(length, state.lines + LINES), state.rewritten));
        } else {
            List<Integer> rewritten = new ArrayList<>(state.rewritten);
            for (int i = 0; i <= random.nextInt(6); i++) {
                rewritten.add(random.nextInt(length));
            }
            put(changes, path, new State(state.text, state.lines, rewritten));
        }
    }

    private void put(StringBuilder changes, String path, State state) {
        tree.put(path, state);
        modify(changes, path, state);
    }

    private void modify(StringBuilder changes, String path, State state) {
        String[] lines = Arrays.copyOf(texts.get(state.text), state.lines);
        for (int line : state.rewritten) {
            if (line < lines.length) {
                lines[line] = lines[line].replaceFirst("\\b(\\w+)\\b", "$1" + state.rewritten.size());
            }
        }
        byte[] bytes = String.join("", lines).getBytes(StandardCharsets.UTF_8);
        changes.append("M 100644 inline ").append(path).append('\n');
        changes.append("data ").append(bytes.length).append('\n');
        changes.append(new String(bytes, StandardCharsets.UTF_8)).append('\n');
    }

    private void data(byte[] bytes) throws IOException {
        print("data " + bytes.length + "\n");
        out.write(bytes);
        print("\n");
    }

    private void print(String text) throws IOException {
        out.write(text.getBytes(StandardCharsets.UTF_8));
    }
}
