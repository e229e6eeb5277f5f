package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The shell around the program: which JDK is found, when and by whom the program is built, how it is started.
 *
 * <p>The scripts are the real ones; the machine is a folder. Its JDKs are stubs whose {@code java} prints its arguments,
 * and its source tree has a stub for Maven that counts its runs. What stubs cannot show, that the modules fit together,
 * CI shows by starting the program itself.
 */
final class LauncherTest {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();

    /** What the stub of {@code java} returns: unlike the status of anything else here. */
    private static final int JAVA_STATUS = 7;

    @TempDir
    Path temporary;

    private Path machine;
    private Path tree;
    private final List<Process> started = new ArrayList<>();

    private record Outcome(int code, String out, String err) {}

    @BeforeEach
    void machineWithJdk17OnThePath() throws IOException {
        machine = temporary.toRealPath();
        tree = machine.resolve("tree");
        Path jdk17 = jdk("usr/lib/jvm/java-17", "17.0.12");
        Files.createDirectories(machine.resolve("usr/bin"));
        Files.createSymbolicLink(machine.resolve("usr/bin/java"), jdk17.resolve("bin/java"));
    }

    @AfterEach
    void stop() {
        started.forEach(Process::destroyForcibly);
    }

    /** Nothing of the program is Python, and nothing that starts it calls one. */
    @Test
    void needsNoPython() throws IOException {
        try (Stream<Path> modules = Files.list(ROOT)) {
            for (Path sources : modules.map(each -> each.resolve(Path.of("src", "main")))
                    .filter(Files::isDirectory)
                    .toList()) {
                try (Stream<Path> files = Files.walk(sources)) {
                    assertThat(files.map(Path::toString)).noneMatch(file -> file.endsWith(".py"));
                }
            }
        }
        for (String script :
                List.of("starforge", "starforge.cmd", "scripts/build", "scripts/image", "deploy/Dockerfile")) {
            assertThat(ROOT.resolve(script)).content().doesNotContainPattern("(?m)^(?!\\s*#).*(?<![/\\w])python");
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "usr/lib/jvm/temurin-25",
                "usr/java/jdk-25",
                "usr/local/openjdk-25",
                "opt/jdk-25",
                "opt/java/openjdk",
                "home/.sdkman/candidates/java/25-tem",
                "home/.jdks/temurin 25",
                "Library/Java/JavaVirtualMachines/temurin-25.jdk/Contents/Home"
            })
    void picks25Beside17(String place) throws Exception {
        Path jdk25 = jdk(place, "25.0.3");
        assertThat(findJdk("")).isEqualTo(new Outcome(0, jdk25 + "\n", ""));
    }

    @ParameterizedTest
    @CsvSource({"25, true", "26-ea, true", "24.0.2, false", "1.8.0_402, false"})
    void prefersJavaHomeIfItIsNewEnough(String version, boolean preferred) throws Exception {
        Path other = jdk("usr/lib/jvm/temurin-25", "25.0.3");
        Path home = jdk("elsewhere", version);
        assertThat(findJdk(home.toString())).isEqualTo(new Outcome(0, (preferred ? home : other) + "\n", ""));
    }

    @Test
    void ignoresJre() throws Exception {
        Path jre = jdk("usr/lib/jvm/a-jre-25", "25.0.3");
        Files.delete(jre.resolve("bin/javac"));
        Path jdk25 = jdk("usr/lib/jvm/b-jdk-25", "25.0.3");
        assertThat(findJdk(jre.toString())).isEqualTo(new Outcome(0, jdk25 + "\n", ""));
    }

    @Test
    void withoutJdkSaysWhatThereIsAndWhatToInstall() throws Exception {
        Path jre = jdk("usr/lib/jvm/jre-25", "25.0.3");
        Files.delete(jre.resolve("bin/javac"));
        Outcome outcome = findJdk(machine.resolve("missing").toString());
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.out()).isEmpty();
        assertThat(outcome.err())
                .startsWith("starforge needs a JDK of version 25 or newer, and found\n")
                .containsOnlyOnce("    " + machine.resolve("usr/lib/jvm/java-17") + " (version 17)\n")
                .containsOnlyOnce("    " + jre + " (version 25, a JRE without javac)\n")
                .contains("temurin-25-jdk", "brew install openjdk@25", "https://adoptium.net", "JAVA_HOME");
    }

    @Test
    void buildsOnceAndPassesArgumentsOn() throws Exception {
        sourceTree();
        Path link = Files.createSymbolicLink(machine.resolve("link"), tree.resolve("starforge"));
        Outcome first = sh("exec \"$0\" verify 'a  b' '*'", link.toString());
        assertThat(first.err())
                .isEqualTo("starforge: building (first run)…\n"
                        + "starforge: preparing faster starts (once, some seconds)…\n");
        assertThat(first.code()).isEqualTo(JAVA_STATUS);
        assertThat(first.out().lines())
                .startsWith(
                        "--module-path", tree.resolve("target/starforge/lib").toString())
                .contains(
                        "--enable-native-access=dev.starforge.cpu,dev.starforge.cuda,dev.starforge.metal",
                        "-XX:+EnableVectorSupport")
                .endsWith("-m", "dev.starforge.cli/dev.starforge.cli.Main", "verify", "a  b", "*");
        assertThat(sh("exec ./starforge --version").err()).isEmpty();
        assertThat(builds()).isEqualTo(1);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"pom.xml", "cli/pom.xml", "cli/src/main/A.java", "starforge", "scripts/build", "mvnw", ".mvn/new"
            })
    void buildsAgainWhenSourcesChange(String changed) throws Exception {
        sourceTree();
        sh("exec scripts/build");
        Files.writeString(tree.resolve("target/starforge/lib/old.jar"), "");
        assertThat(sh("touch \"$0\" && exec scripts/build", changed))
                .isEqualTo(new Outcome(0, "", "starforge: building (sources changed)…\n"));
        assertThat(builds()).isEqualTo(2);
        assertThat(tree.resolve("target/starforge/lib/old.jar")).doesNotExist();
        assertThat(names("target")).containsExactly("starforge", "starforge.log");
    }

    /** Each makes, in the folder of the lock, what a build that was killed may have left. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                ": not yet a number",
                ": & wait $! && touch $! # a process that is gone",
                "touch $$ # the number has passed to the one that waits",
                "touch $PPID # the number has passed to another process, this JVM"
            })
    void takesTheLockOfKilledBuild(String leave) throws Exception {
        sourceTree();
        program("usr/bin/sleep", "exit 0");
        Outcome outcome = sh("mkdir -p target/starforge.lock && cd target/starforge.lock || exit\n" + leave
                + "\ncd ../.. && exec scripts/build");
        assertThat(outcome.code()).isZero();
        assertThat(outcome.err()).endsWith("starforge: building (first run)…\n");
        assertThat(builds()).isEqualTo(1);
        assertThat(names("target")).containsExactly("starforge", "starforge.log");
    }

    @Test
    void secondBuildWaitsForTheFirst() throws Exception {
        sourceTree();
        Path hold = Files.createFile(tree.resolve("hold"));
        Process first = start("first", "exec scripts/build");
        await(machine.resolve("first.err"), "building (first run)");
        Process second = start("second", "exec scripts/build");
        String waiting = "starforge: waiting for the build of process " + first.pid() + "…\n";
        await(machine.resolve("second.err"), waiting);
        Files.delete(hold);
        assertThat(outcome("first", first).code()).isZero();
        assertThat(outcome("second", second)).isEqualTo(new Outcome(0, "", waiting));
        assertThat(builds()).isEqualTo(1);
    }

    @Test
    void failedBuildShowsWhyAndStartsNothing() throws Exception {
        sourceTree();
        program("tree/mvnw", "echo '[INFO] noise'; echo '[ERROR] A.java: bad'; exit 1");
        Outcome outcome = sh("exec ./starforge --version");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.out()).isEmpty();
        assertThat(outcome.err())
                .contains("[ERROR] A.java: bad", "starforge.log")
                .doesNotContain("noise");
        assertThat(tree.resolve("target/starforge.lock")).doesNotExist();
    }

    @Test
    void interruptedFirstStartLeavesNoCache() throws Exception {
        sourceTree();
        program("usr/lib/jvm/temurin-25/bin/java", """
            for a; do case $a in -XX:AOTCacheOutput=*) echo half >"${a#*=}" && kill -TERM $PPID ;; esac; done
            exit 1\
            """);
        Outcome outcome = sh("exec ./starforge --version");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(names("target/starforge"))
                .containsExactly("LICENSE", "lib", "runtime", "sample", "stamp", "starforge", "starforge.cmd");
    }

    private Outcome findJdk(String javaHome) throws Exception {
        return sh(
                "set -eu; JAVA_HOME=$2; . \"$0/scripts/find-jdk.sh\"; find_jdk 25 \"$1\"; printenv JAVA_HOME",
                ROOT.toString(),
                machine.toString(),
                javaHome);
    }

    private Path jdk(String place, String version) throws IOException {
        Path home = machine.resolve(place);
        program(place + "/bin/java", "printf '%s\\n' \"$@\"; exit " + JAVA_STATUS);
        program(place + "/bin/javac", "exit 1");
        Files.createDirectories(home.resolve("lib"));
        Files.createFile(home.resolve("lib/modules"));
        Files.writeString(home.resolve("release"), "IMPLEMENTOR=\"Stub\"\nJAVA_VERSION=\"" + version + "\"\n");
        return home;
    }

    /** The scripts, and as little else as they need; a build takes as long as there is a file named hold. */
    private void sourceTree() throws IOException {
        jdk("usr/lib/jvm/temurin-25", "25.0.3");
        for (String file : List.of("starforge", "starforge.cmd", "scripts/build", "scripts/find-jdk.sh", "LICENSE")) {
            Files.createDirectories(tree.resolve(file).getParent());
            Files.copy(ROOT.resolve(file), tree.resolve(file));
        }
        Files.createDirectories(tree.resolve(".mvn"));
        Files.createDirectories(tree.resolve("cli/src/main"));
        Path sample = Files.createDirectories(tree.resolve("golden/models/starcoder2"));
        for (String file : List.of("config.json", "tokenizer.json", "model.safetensors")) {
            Files.createFile(sample.resolve(file));
        }
        Files.createFile(tree.resolve("pom.xml"));
        Files.createFile(tree.resolve("cli/pom.xml"));
        program("tree/mvnw", """
            echo build >>builds
            while [ -e hold ]; do sleep 0.05; done
            mkdir -p cli/target/quick/lib
            touch cli/target/quick/lib/other.jar cli/target/quick/starforge-cli-0.jar\
            """);
    }

    private void program(String place, String body) throws IOException {
        Path file = machine.resolve(place);
        Files.createDirectories(file.getParent());
        Files.writeString(file, "#!/bin/sh\n" + body + "\n");
        assertThat(file.toFile().setExecutable(true)).isTrue();
    }

    private long builds() throws IOException {
        return Files.readAllLines(tree.resolve("builds")).size();
    }

    private List<String> names(String folder) throws IOException {
        try (Stream<Path> files = Files.list(tree.resolve(folder))) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    private Outcome sh(String script, String... args) throws Exception {
        return outcome("sh", start("sh", script, args));
    }

    /** Starts a script in the source tree, if there is one, with nothing of this process's environment. */
    private Process start(String name, String script, String... args) throws IOException {
        List<String> command = new ArrayList<>(List.of("/bin/sh", "-c", script));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory((Files.exists(tree) ? tree : machine).toFile())
                .redirectOutput(machine.resolve(name + ".out").toFile())
                .redirectError(machine.resolve(name + ".err").toFile());
        builder.environment().clear();
        builder.environment()
                .putAll(Map.of(
                        "PATH", machine.resolve("usr/bin") + ":/usr/bin:/bin",
                        "HOME", machine.resolve("home").toString(),
                        "JAVA_HOME", machine.resolve("usr/lib/jvm/temurin-25").toString()));
        Process process = builder.start();
        started.add(process);
        return process;
    }

    private Outcome outcome(String name, Process process) throws Exception {
        assertThat(process.waitFor(60, TimeUnit.SECONDS)).as("%s ends", name).isTrue();
        return new Outcome(
                process.exitValue(),
                Files.readString(machine.resolve(name + ".out")),
                Files.readString(machine.resolve(name + ".err")));
    }

    private static void await(Path file, String text) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!Files.readString(file).contains(text)) {
            assertThat(System.nanoTime()).as("%s says %s", file, text).isLessThan(end);
            Thread.sleep(20);
        }
    }
}
