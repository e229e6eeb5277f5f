package dev.starforge.cli.bundle;

import dev.starforge.text.file.Hashes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * Archive of the program for machines without Java and network: launchers, jars with kernels, a Java runtime and optionally a
 * model. {@code SHA256SUMS} has the hash of each file. The archive is renamed when it is complete.
 *
 * @param home the folder of the running program: {@code lib}, {@code runtime} and the launchers
 * @param runtime the Java runtime to include, if any
 * @param model a folder or a file
 */
public record Bundle(Path home, Optional<Path> runtime, Optional<Path> model) {
    private static final String ROOT = "starforge/";
    private static final String SUMS = "SHA256SUMS";

    /** Writes the archive; returns the number of files. */
    public int write(Path out) throws IOException {
        SortedMap<String, Path> files = new TreeMap<>();
        for (String name : new String[] {"starforge", "starforge.cmd", "LICENSE"}) {
            files.put(name, home.resolve(name));
        }
        add(files, "lib", home.resolve("lib"));
        add(files, "sample", home.resolve("sample"));
        if (runtime.isPresent()) {
            add(files, "runtime", runtime.get());
        }
        if (model.isPresent()) {
            add(files, "models/" + model.get().getFileName(), model.get());
        }
        Path partial = out.resolveSibling(out.getFileName() + ".partial");
        try {
            StringBuilder sums = new StringBuilder();
            try (TarGz archive = new TarGz(partial)) {
                for (Map.Entry<String, Path> file : files.entrySet()) {
                    sums.append(Hashes.sha256(file.getValue()))
                            .append("  ")
                            .append(file.getKey())
                            .append('\n');
                    archive.add(ROOT + file.getKey(), file.getValue());
                }
                archive.add(ROOT + SUMS, sums.toString());
            }
            Files.move(partial, out, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(partial);
        }
        return files.size() + 1;
    }

    private static void add(SortedMap<String, Path> files, String name, Path root) throws IOException {
        try (Stream<Path> tree = Files.walk(root)) {
            tree.filter(Files::isRegularFile).forEach(file -> {
                String inside = root.relativize(file).toString().replace('\\', '/');
                files.put(inside.isEmpty() ? name : name + "/" + inside, file);
            });
        }
    }
}
