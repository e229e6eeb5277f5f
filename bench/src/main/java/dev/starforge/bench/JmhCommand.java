package dev.starforge.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Single operations under JMH, which forks a JVM for each benchmark. */
@Command(
        name = "jmh",
        mixinStandardHelpOptions = true,
        description = {
            "Times single operations with JMH, with error estimates.",
            "Examples: ./dev jmh MatMul -p type=Q4_0,Q8_0 -p tokens=1",
            "          ./dev jmh Attention -prof gc"
        })
final class JmhCommand implements Callable<Integer> {
    private static final String JVM_ARGS =
            "--add-modules=jdk.incubator.vector --enable-native-access=ALL-UNNAMED -XX:+UseSerialGC";

    @Parameters(
            paramLabel = "REGEX",
            arity = "0..*",
            description = "Benchmarks to run (default: all), and options of JMH.")
    List<String> args = List.of();

    @Override
    public Integer call() throws Exception {
        List<String> all = new ArrayList<>(List.of("-jvmArgsPrepend", JVM_ARGS));
        all.addAll(args);
        org.openjdk.jmh.Main.main(all.toArray(String[]::new));
        return 0;
    }
}
