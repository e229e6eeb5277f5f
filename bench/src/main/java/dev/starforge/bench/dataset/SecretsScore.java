package dev.starforge.bench.dataset;

import dev.starforge.data.dataset.SecretsCorpus;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.git.BlobReader;
import dev.starforge.text.secrets.PrivateKeys;
import dev.starforge.text.secrets.SecretFinding;
import dev.starforge.text.secrets.SecretRule;
import dev.starforge.text.secrets.SecretScanner;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectReader;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;
import org.eclipse.jgit.treewalk.TreeWalk;

/**
 * Scores the redaction of secrets as a classifier: recall on planted secrets, precision on the lines around them and on lines that only
 * look like secrets. Also lists the redactions in real repositories by rule. {@code ./dev secrets-score} runs it.
 */
final class SecretsScore {
    static final long SEED = 20;

    /** The default of {@code filters.max_secrets}. */
    private static final int MOST_SECRETS = 5;

    /** Number of secrets found, and the lines of those missed. */
    static final class Count {
        int found;
        int damaged;
        final List<String> missed = new ArrayList<>();

        int all() {
            return found + missed.size();
        }

        double recall() {
            return (double) found / Math.max(1, all());
        }
    }

    /** The score of a set, by style and provider, and the false positives. */
    record Score(Map<String, Count> groups, Count all, List<String> wrong, int innocentLines) {
        double precision() {
            return (double) all.found / Math.max(1, all.found + wrong.size());
        }
    }

    private SecretsScore() {}

    /** Plants each secret of a set in a line of a file, and redacts the file. */
    static Score score(String set, List<Path> hosts) throws IOException {
        List<List<String>> files = new ArrayList<>();
        for (Path host : hosts) {
            files.add(Files.readAllLines(host));
        }
        Random random = new Random(SEED);
        Score score = new Score(new TreeMap<>(), new Count(), new ArrayList<>(), innocentLines(files));
        for (SecretsCorpus.Planted planted : SecretsCorpus.make(SEED)) {
            List<String> host = files.get(random.nextInt(files.size()));
            int at = random.nextInt(host.size());
            if (!planted.set().equals(set)) {
                continue;
            }
            List<String> lines = new ArrayList<>(host.subList(Math.max(0, at - 20), at));
            int line = lines.size();
            lines.add(planted.line());
            lines.addAll(host.subList(at, Math.min(host.size(), at + 20)));
            String[] shown = redact(String.join("\n", lines)).split("\n", -1);
            count(score, planted, shown[line]);
        }
        for (List<String> file : files) {
            innocent(file, score.wrong());
        }
        innocent(SecretsCorpus.negatives(), score.wrong());
        return score;
    }

    private static int innocentLines(List<List<String>> files) {
        return files.stream().mapToInt(List::size).sum()
                + SecretsCorpus.negatives().size();
    }

    private static void innocent(List<String> lines, List<String> wrong) {
        for (String line : lines) {
            for (SecretFinding finding : SecretScanner.scan(line)) {
                // e-mail addresses in the sources are real
                if (finding.rule() != SecretRule.EMAIL || line.startsWith("    ")) {
                    wrong.add(line.strip() + "   ->   " + line.substring(finding.from(), finding.to()));
                }
            }
        }
    }

    private static String redact(String text) {
        return new Redactor().redact(text);
    }

    private static void count(Score score, SecretsCorpus.Planted planted, String shown) {
        boolean redacted =
                !shown.contains(planted.secret().substring(planted.secret().length() / 3))
                        && !shown.contains(
                                planted.secret().substring(0, (planted.secret().length() * 2 + 2) / 3));
        boolean whole = shown.startsWith(planted.before()) && shown.endsWith(planted.after());
        for (Count count : List.of(score.all(), score.groups().computeIfAbsent(planted.group(), name -> new Count()))) {
            if (redacted) {
                count.found++;
                count.damaged += whole ? 0 : 1;
            } else {
                count.missed.add(planted.line());
            }
        }
        if (redacted && !whole) {
            score.wrong().add(planted.line().strip() + "   ->   " + shown.strip());
        }
    }

    /** Redactions in the files of a repository. */
    static final class Scan {
        long lines;
        long bytes;
        int files;
        int dropped;
        double seconds;
        final Map<SecretRule, List<String>> byRule = new EnumMap<>(SecretRule.class);
    }

    /** Redacts every text file of a repository's last commit. */
    static Scan scan(Path repository, boolean show) throws IOException {
        Scan scan = new Scan();
        List<String> paths = new ArrayList<>();
        List<byte[]> contents = new ArrayList<>();
        read(repository, paths, contents);
        long begin = System.nanoTime();
        for (byte[] content : contents) {
            scan.dropped += drops(content) ? 1 : 0;
        }
        scan.seconds = (System.nanoTime() - begin) / 1e9;
        scan.files = contents.size();
        for (int i = 0; i < contents.size(); i++) {
            list(paths.get(i), contents.get(i), scan, show);
        }
        return scan;
    }

    private static boolean drops(byte[] content) {
        Redactor secrets = new Redactor();
        secrets.redact(content);
        return secrets.strong() > MOST_SECRETS;
    }

    private static void list(String path, byte[] content, Scan scan, boolean show) {
        String[] lines = new String(content, StandardCharsets.ISO_8859_1).split("\n", -1);
        scan.lines += lines.length;
        scan.bytes += content.length;
        for (PrivateKeys.KeySpan part : PrivateKeys.find(content)) {
            if (part.first()) {
                scan.byRule
                        .computeIfAbsent(SecretRule.PRIVATE_KEY, rule -> new ArrayList<>())
                        .add(path);
            }
        }
        for (int i = 0; i < lines.length; i++) {
            for (SecretFinding finding : SecretScanner.scan(lines[i])) {
                String value = lines[i].substring(finding.from(), finding.to());
                String shown = show ? value + "   in   " + around(lines[i], finding) : SecretFinding.masked(value);
                scan.byRule
                        .computeIfAbsent(finding.rule(), rule -> new ArrayList<>())
                        .add(path + ":" + (i + 1) + "  " + shown);
            }
        }
    }

    private static String around(String line, SecretFinding finding) {
        return line.substring(Math.max(0, finding.from() - 60), Math.min(line.length(), finding.to() + 20))
                .strip();
    }

    private static void read(Path repository, List<String> paths, List<byte[]> contents) throws IOException {
        try (Repository git = new FileRepositoryBuilder()
                        .setMustExist(true)
                        .findGitDir(repository.toFile())
                        .setGitDir(Files.isDirectory(repository.resolve("objects")) ? repository.toFile() : null)
                        .build();
                ObjectReader objects = git.newObjectReader();
                RevWalk commits = new RevWalk(git);
                TreeWalk tree = new TreeWalk(git, objects)) {
            tree.addTree(commits.parseCommit(git.resolve(Constants.HEAD)).getTree());
            tree.setRecursive(true);
            while (tree.next()) {
                if (tree.getFileMode() != FileMode.GITLINK && objects.has(tree.getObjectId(0))) {
                    byte[] content = objects.open(tree.getObjectId(0)).getBytes();
                    if (content.length <= 4 << 20 && !BlobReader.isBinary(content)) {
                        paths.add(tree.getPathString());
                        contents.add(content);
                    }
                }
            }
        }
    }

    private static void print(String title, Score score, boolean show) {
        System.out.printf(
                Locale.ROOT,
                "%s: recall %.4f (%d of %d), precision %.4f (%d wrong of %d lines)%n",
                title,
                score.all().recall(),
                score.all().found,
                score.all().all(),
                score.precision(),
                score.wrong().size(),
                score.innocentLines());
        score.groups()
                .forEach((group, count) -> System.out.printf(
                        Locale.ROOT, "  %-28s %4d of %4d  %.3f%n", group, count.found, count.all(), count.recall()));
        if (show) {
            score.all().missed.forEach(line -> System.out.println("  missed: " + line.strip()));
            score.wrong().forEach(line -> System.out.println("  wrong: " + line));
        }
    }

    private static void print(Path repository, Scan scan, boolean show) {
        long replaced = scan.byRule.entrySet().stream()
                .filter(entry -> entry.getKey() != SecretRule.EMAIL)
                .mapToLong(entry -> entry.getValue().size())
                .sum();
        System.out.printf(
                Locale.ROOT,
                "%s: %,d files, %,d lines, %d replaced besides mail addresses, %d files dropped; %.1f MB/s%n",
                repository,
                scan.files,
                scan.lines,
                replaced,
                scan.dropped,
                scan.bytes / 1e6 / scan.seconds);
        scan.byRule.forEach((rule, found) -> {
            System.out.printf(Locale.ROOT, "  %-18s %d%n", rule.label(), found.size());
            found.stream()
                    .limit(show ? Integer.MAX_VALUE : 5)
                    .forEach(each -> System.out.println("    " + each.strip()));
        });
    }

    /** The source files that secrets are planted in. */
    static List<Path> hosts() throws IOException {
        List<Path> files = new ArrayList<>();
        for (String module : List.of("data", "text")) {
            files.addAll(SecretsCorpus.hosts(Path.of("..", module)));
        }
        return files;
    }

    /** Prints the score of every set of planted secrets, then what is redacted in repositories. */
    static void run(boolean show, List<Path> repositories) throws IOException {
        List<Path> hosts = hosts();
        for (String set : SecretsCorpus.SETS) {
            print(set, score(set, hosts), show);
        }
        for (Path repository : repositories) {
            print(repository, scan(repository, show), show);
        }
    }
}
