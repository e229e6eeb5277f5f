package dev.starforge.cli;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.zip.DeflaterOutputStream;

/**
 * A small git repository to rehearse {@code dataset} with: classes that grow and change, one commit after another. It is
 * written object by object, since there may be no git here, and always the same.
 */
final class SampleHistory {
    private static final int COMMITS = 24;
    private static final int CLASSES = 6;
    private static final int METHODS = 6;
    private static final long FIRST = 1_700_000_000L;
    private static final long BETWEEN = 3_600;
    private static final String[] WORDS = {
        "line", "token", "count", "buffer", "index", "shape", "reader", "value", "offset", "name", "key", "next"
    };

    private final Path folder;
    private final Random random = new Random(7);

    private SampleHistory(Path folder) {
        this.folder = folder;
    }

    /** Writes a bare repository to a folder that does not exist yet. */
    static void write(Path folder) {
        try {
            new SampleHistory(folder).write();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private void write() throws IOException {
        Files.createDirectories(folder.resolve("refs/heads"));
        Files.createDirectories(folder.resolve("objects"));
        Files.writeString(folder.resolve("HEAD"), "ref: refs/heads/main\n");
        Files.writeString(folder.resolve("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
        Map<String, String> files = new TreeMap<>();
        files.put("settings.properties", "mail=somebody@example.org\npassword=Sample0fNothing!\n");
        String parent = "";
        for (int commit = 0; commit < COMMITS; commit++) {
            for (int changes = 0; changes < 3; changes++) {
                String name = "Sample" + random.nextInt(CLASSES);
                files.merge(name + ".java", type(name), this::changed);
            }
            parent = commit(tree(files), parent, commit);
        }
        Files.writeString(folder.resolve("refs/heads/main"), parent + "\n");
    }

    private String type(String name) {
        StringBuilder text =
                new StringBuilder("package sample;\n\nimport java.util.List;\n\nfinal class " + name + " {\n");
        for (int method = 0; method < METHODS; method++) {
            text.append(method());
        }
        return text.append("}\n").toString();
    }

    private String method() {
        StringBuilder text =
                new StringBuilder("    /** Adds. */\n    int ").append(word()).append(random.nextInt(1000));
        text.append("(int first, List<String> names) {\n");
        for (int line = 0; line < 8; line++) {
            text.append("        int ")
                    .append(word())
                    .append(random.nextInt(100))
                    .append(" = first * ");
            text.append(word())
                    .append("(\"")
                    .append(word())
                    .append("\", ")
                    .append(random.nextInt(100))
                    .append(");\n");
        }
        return text.append("        return first;\n    }\n\n").toString();
    }

    /** A file with another method, or with some words replaced. */
    private String changed(String text, String other) {
        if (random.nextBoolean()) {
            int end = text.lastIndexOf('}');
            return text.substring(0, end) + method() + "}\n";
        }
        return text.replace("= first * " + word(), "= first + " + word());
    }

    private String word() {
        return WORDS[random.nextInt(WORDS.length)];
    }

    private String tree(Map<String, String> files) throws IOException {
        ByteArrayOutputStream tree = new ByteArrayOutputStream();
        for (Map.Entry<String, String> file : files.entrySet()) {
            tree.writeBytes(("100644 " + file.getKey() + "\0").getBytes(StandardCharsets.UTF_8));
            tree.writeBytes(
                    HexFormat.of().parseHex(object("blob", file.getValue().getBytes(StandardCharsets.UTF_8))));
        }
        return object("tree", tree.toByteArray());
    }

    private String commit(String tree, String parent, int number) throws IOException {
        String who = "Somebody <somebody@example.org> " + (FIRST + BETWEEN * number) + " +0000\n";
        String text = "tree " + tree + "\n" + (parent.isEmpty() ? "" : "parent " + parent + "\n") + "author " + who
                + "committer " + who + "\nChange " + number + "\n";
        return object("commit", text.getBytes(StandardCharsets.UTF_8));
    }

    private String object(String type, byte[] content) throws IOException {
        byte[] head = (type + " " + content.length + "\0").getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (DeflaterOutputStream deflater = new DeflaterOutputStream(packed)) {
            deflater.write(head);
            deflater.write(content);
        }
        String id = HexFormat.of().formatHex(sha1(head, content));
        Path file = folder.resolve("objects").resolve(id.substring(0, 2)).resolve(id.substring(2));
        Files.createDirectories(file.getParent());
        Files.write(file, packed.toByteArray());
        return id;
    }

    private static byte[] sha1(byte[] head, byte[] content) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-1");
            digest.update(head);
            return digest.digest(content);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
