package dev.starforge.bench;

import dev.starforge.conformance.ConformanceMain;
import dev.starforge.conformance.OpsTable;
import dev.starforge.conformance.Speed;
import dev.starforge.conformance.Sweep;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The conformance suite without a build tool in between, and measurements of the operations. */
@Command(
        name = "conformance",
        mixinStandardHelpOptions = true,
        synopsisSubcommandLabel = "(suite | speed | sweep | table)",
        description = {
            "Checks or times every operation of a device.",
            "The environment variable CONFORMANCE_JAVA names another java command, for example one that runs under an"
                    + " emulator."
        })
final class ConformanceCommand {
    @Command(
            name = "suite",
            mixinStandardHelpOptions = true,
            description = "Checks every operation on a device against the reference.")
    void suite(
            @Option(names = "--device", required = true, paramLabel = "NAME", description = "Device to check.")
                    String device,
            @Option(names = "--only", paramLabel = "REGEX", description = "Runs only matching cases.") String only,
            @Option(names = "--hide", paramLabel = "FEATURES", description = "GPU features not to use, such as sm_90.")
                    String hide,
            @Option(names = "--part", paramLabel = "I/N", description = "Runs part I of N equal parts.") String part)
            throws IOException {
        List<String> args = new ArrayList<>(List.of("--device", device));
        add(args, "--only", only);
        add(args, "--hide", hide);
        add(args, "--part", part);
        ConformanceMain.main(args.toArray(String[]::new));
    }

    private static void add(List<String> args, String name, String value) {
        if (value != null) {
            args.addAll(List.of(name, value));
        }
    }

    @Command(
            name = "speed",
            mixinStandardHelpOptions = true,
            description = "Times every operation and compares it with the limits of the machine.")
    void speed(@Parameters(paramLabel = "DEVICE") String device) throws IOException {
        Speed.main(new String[] {device});
    }

    @Command(
            name = "sweep",
            mixinStandardHelpOptions = true,
            description = "Times matmuls of 1 to 64 rows with the weights of a large layer, by weight format.")
    void sweep(@Parameters(paramLabel = "DEVICE") String device) throws IOException {
        Sweep.main(new String[] {device});
    }

    @Command(
            name = "table",
            mixinStandardHelpOptions = true,
            description = "Writes the table of operations and backends: ./dev conformance table docs/ops.md")
    void table(@Parameters(paramLabel = "FILE") Path file) throws IOException {
        OpsTable.main(new String[] {file.toString()});
    }
}
