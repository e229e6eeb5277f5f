package dev.starforge.data.dataset;

import dev.starforge.data.git.Sealed;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.api.errors.GitAPIException;
import org.eclipse.jgit.dircache.DirCache;
import org.eclipse.jgit.dircache.DirCacheBuilder;
import org.eclipse.jgit.dircache.DirCacheEntry;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;

/**
 * A small git repository to rehearse {@code dataset} with, always the same: texts that grow, change, move and go, with
 * lines of every kind that the scan for secrets tells apart, some of it packed and some not. What a rehearsal never saw
 * is compiled twice later: first as if it could not happen, and again when it does.
 */
public final class SampleHistory {
    private static final int COMMITS = 240;
    private static final int PACKED = 160;
    private static final int MERGED = 30;
    private static final int BINARY = 100_000;
    private static final Instant FIRST = Instant.ofEpochSecond(1_700_000_000L);
    private static final int BETWEEN = 3_600;

    private static final String[] WORDS = {
        "line", "token", "count", "buffer", "index", "shape", "reader", "value", "offset", "name", "key", "next"
    };
    private static final String[] ENDINGS = {".java", ".java", ".java", ".md", ".sh", ".yaml", ".py", ".js"};
    private static final String[] FOLDERS = {"src/main/java/sample/", "src/test/java/sample/", "docs/", "scripts/", ""};

    private static final String[] LINES = """
            package sample.WORD;
            import java.util.List;
            import static sample.WORD.WORD;

            /** Adds a WORD to the WORD, as {@link WORD} does; see https://example.org/WORD?a=b:c. */
            @Override
            @param WORD of the WORD, without its WORD
            final class Sample implements Runnable, AutoCloseable {
                private static final String WORD = "WORD";
                private int WORD = NUMBER;
                int WORDNUMBER(int first, List<String> names) {
                    int WORDNUMBER = first * WORD("WORD", NUMBER);
                    WORD.WORD(WORD, -> WORD + "\\n", 'c', 0xFFL);
                    String key = WORD.get("key");
                    String token=tokens.next();
                    map.put("secret_key", "WORD");
                    for (int i = 0; i < WORD.length; i++) {
                    if (WORD == null || WORD.isEmpty() && a[i] != b[j]) {
                    return first >>> NUMBER & ~WORD;
                }
            }
            \tindented with a tab: WORD\tand "WORD"
            größer als – naïve … 日本語 𝔘nicode
            password: ${PASS}
            password = "WORDNUMBER!x"
            passwd=Sample0fNumberNUMBER
            secret: Sample0fNumberNUMBER
            api_key: 'aNUMBERbNUMBERcWORD',
            token := `value`
            "auth_token" => "WORDNUMBERqNUMBER"
            credentials, "WORD"
            export SECRET_TOKEN=$(cat file)
            mail=somebody@example.org # or user@host
            git clone git@example.org:WORD/WORD.git
            db: postgres://user:WORDNUMBER@localhost/WORD
            AKIAIOSFODNN7EXAMPLE ghp_ and sk-NUMBER
            sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
            Zm9vYmFyYmF6cXV4NUMBERQ1dFUlRZ0123abcDEF98
            a_very_long_name_of_something_that_is_no_key_at_all_NUMBER
            VeryLongCamelCaseNameOfSomethingElseThatIsNoKey
            | WORD | WORD | NUMBER |
            -----
            --- a/WORD
            - WORD: [NUMBER, NUMBER]
            # WORD
            $WORD->WORD["WORD"] ?: {{ WORD }} %s
            """.split("\n");

    private final Repository repository;
    private final Random random = new Random(7);
    private final Map<String, List<String>> files = new TreeMap<>();
    private final Map<String, byte[]> binaries = new TreeMap<>();

    private SampleHistory(Repository repository) {
        this.repository = repository;
    }

    /** Writes a bare repository to a folder that does not exist yet. */
    public static void write(Path folder) throws IOException {
        Sealed.install();
        try (Repository repository =
                new FileRepositoryBuilder().setBare().setGitDir(folder.toFile()).build()) {
            repository.create(true);
            new SampleHistory(repository).write();
        }
    }

    private void write() throws IOException {
        List<ObjectId> commits = new ArrayList<>();
        try (ObjectInserter inserter = repository.newObjectInserter()) {
            while (commits.size() < COMMITS) {
                int changes = 1 + random.nextInt(4);
                for (int change = 0; change < changes; change++) {
                    change();
                }
                commits.add(commit(inserter, commits));
                if (commits.size() == PACKED) {
                    setHead(commits.getLast());
                    pack();
                }
            }
        }
        setHead(commits.getLast());
    }

    private void change() {
        int what = random.nextInt(20);
        if (files.size() < 4 || what < 3) {
            files.put(path(), lines(20 + random.nextInt(60)));
            return;
        }
        String path = List.copyOf(files.keySet()).get(random.nextInt(files.size()));
        switch (what) {
            case 3 -> files.remove(path);
            case 4, 5 -> files.put(path(), changed(files.remove(path)));
            case 6 -> binaries.put(path() + ".bin", binary());
            case 7 -> files.put("keys.pem", key());
            case 8 -> files.put("LICENSE", List.of("MIT License", "", "Copyright (c) " + random.nextInt(2000, 2030)));
            default -> files.compute(path, (same, text) -> changed(text));
        }
    }

    /** Some runs of lines replaced, added or taken out. */
    private List<String> changed(List<String> text) {
        List<String> changed = new ArrayList<>(text);
        for (int run = random.nextInt(3); run >= 0; run--) {
            int from = random.nextInt(changed.size() + 1);
            int to = Math.min(changed.size(), from + random.nextInt(6));
            changed.subList(from, to).clear();
            changed.addAll(from, lines(random.nextInt(8)));
        }
        return changed;
    }

    private List<String> lines(int count) {
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String line = LINES[random.nextInt(LINES.length)];
            while (line.contains("WORD")) {
                line = line.replaceFirst("WORD", word());
            }
            lines.add(line.replace("NUMBER", Integer.toString(random.nextInt(1000))));
        }
        return lines;
    }

    private String path() {
        return FOLDERS[random.nextInt(FOLDERS.length)]
                + word()
                + random.nextInt(100)
                + ENDINGS[random.nextInt(ENDINGS.length)];
    }

    private String word() {
        return WORDS[random.nextInt(WORDS.length)];
    }

    private List<String> key() {
        List<String> key = new ArrayList<>(List.of("-----BEGIN PRIVATE KEY-----"));
        for (int i = 0; i < 4; i++) {
            byte[] line = new byte[48];
            random.nextBytes(line);
            key.add(Base64.getEncoder().encodeToString(line));
        }
        key.add("-----END PRIVATE KEY-----");
        return key;
    }

    private byte[] binary() {
        byte[] bytes = new byte[random.nextInt(BINARY)];
        random.nextBytes(bytes);
        return bytes;
    }

    private ObjectId commit(ObjectInserter inserter, List<ObjectId> before) throws IOException {
        DirCache index = DirCache.newInCore();
        DirCacheBuilder builder = index.builder();
        for (Map.Entry<String, List<String>> file : files.entrySet()) {
            String end = file.getValue().size() % 7 == 0 ? "" : "\n";
            builder.add(entry(
                    file.getKey(),
                    (String.join("\n", file.getValue()) + end).getBytes(StandardCharsets.UTF_8),
                    inserter));
        }
        for (Map.Entry<String, byte[]> file : binaries.entrySet()) {
            builder.add(entry(file.getKey(), file.getValue(), inserter));
        }
        builder.finish();
        CommitBuilder commit = new CommitBuilder();
        commit.setTreeId(index.writeTree(inserter));
        int number = before.size();
        if (number > 0) {
            commit.addParentId(before.getLast());
        }
        if (number % MERGED == MERGED - 1) {
            commit.addParentId(before.get(number - 3));
        }
        PersonIdent somebody = new PersonIdent(
                "Some Body", "somebody@example.org", FIRST.plusSeconds((long) BETWEEN * number), ZoneOffset.UTC);
        commit.setAuthor(somebody);
        commit.setCommitter(somebody);
        commit.setMessage("Change " + word() + " " + number + "\n\nAs Some Body wished: " + String.join("\n", lines(2))
                + "\n\nSigned-off-by: Some Body <somebody@example.org>\n");
        ObjectId id = inserter.insert(commit);
        inserter.flush();
        return id;
    }

    private void setHead(ObjectId commit) throws IOException {
        RefUpdate head = repository.updateRef(Constants.HEAD);
        head.setNewObjectId(commit);
        head.forceUpdate();
    }

    private static DirCacheEntry entry(String path, byte[] content, ObjectInserter inserter) throws IOException {
        DirCacheEntry entry = new DirCacheEntry(path);
        entry.setFileMode(FileMode.REGULAR_FILE);
        entry.setObjectId(inserter.insert(Constants.OBJ_BLOB, content));
        return entry;
    }

    private void pack() throws IOException {
        try {
            new Git(repository).gc().call();
        } catch (GitAPIException failure) {
            throw new IOException(failure);
        }
    }
}
