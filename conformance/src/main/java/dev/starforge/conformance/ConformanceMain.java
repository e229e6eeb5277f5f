package dev.starforge.conformance;

import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * Runs the conformance suite without a build tool, for a GPU machine: {@code ./dev conformance suite --device cuda}, or, without the
 * sources, as described in docs/add-an-operation.md.
 */
public final class ConformanceMain {
    private ConformanceMain() {}

    /** The command line options. */
    record Request(String device, Pattern only, Set<String> hidden, int part, int parts) {
        static Request parse(String... args) {
            String device = "";
            String only = "";
            Set<String> hidden = Set.of();
            String[] part = {"1", "1"};
            for (int i = 0; i < args.length; i += 2) {
                if (i + 1 == args.length) {
                    throw new IllegalArgumentException(args[i] + " needs a value");
                }
                switch (args[i]) {
                    case "--device" -> device = args[i + 1];
                    case "--only" -> only = args[i + 1];
                    case "--hide" -> hidden = Set.of(args[i + 1].split(","));
                    case "--part" -> part = args[i + 1].split("/");
                    default -> throw new IllegalArgumentException(args[i] + " is unknown");
                }
            }
            if (device.isEmpty()) {
                throw new IllegalArgumentException("--device NAME is missing");
            }
            if (part.length != 2 || !part[0].matches("\\d{1,4}") || !part[1].matches("\\d{1,4}")) {
                throw new IllegalArgumentException("--part: expected I/N, such as 1/8, got " + String.join("/", part));
            }
            return new Request(
                    device, Pattern.compile(only), hidden, Integer.parseInt(part[0]), Integer.parseInt(part[1]));
        }

        Request {
            if (part < 1 || part > parts) {
                throw new IllegalArgumentException("--part: expected one of 1 to " + parts + ", got " + part);
            }
        }

        /** Every {@code parts}-th matching case, so that parallel processes can run one part each. */
        List<Case> cases() {
            List<Case> asked = Cases.all().stream()
                    .filter(c -> only.matcher(c.toString()).find())
                    .toList();
            return IntStream.range(0, asked.size())
                    .filter(i -> i % parts == part - 1)
                    .mapToObj(asked::get)
                    .toList();
        }
    }

    public static void main(String[] args) throws IOException {
        try {
            System.exit(run(Request.parse(args), System.out) ? 0 : 1);
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage());
            System.err.println("usage: --device NAME [--only REGEX] [--hide FEATURE,FEATURE] [--part I/N]");
        } catch (DeviceException missing) {
            System.err.println(missing.getMessage());
        }
        System.exit(2);
    }

    /** Runs the suite. Returns true if at least one check ran and none failed. */
    static boolean run(Request request, PrintStream out) throws IOException {
        Selection selection = Selection.choose(request.device());
        Backend backend = selection.backend();
        out.println(backend.name() + ": " + selection.reason());
        Path kernelCache = Files.createTempDirectory("starforge-kernels");
        long passed = 0;
        long failed = 0;
        try (Device device = backend.open(options(backend, 1, kernelCache, request.hidden()));
                Device twin = backend.open(options(backend, 2, kernelCache, request.hidden()));
                Device reference = reference()) {
            Conformance conformance = new Conformance(backend, device, twin, reference);
            for (Case c : request.cases()) {
                for (Conformance.Check check : conformance.checks(c)) {
                    try {
                        conformance.run(check, c);
                        passed++;
                    } catch (ConformanceFailure failure) {
                        failed++;
                        out.println("FAILED " + check + " " + c + ": " + failure.getMessage());
                    }
                }
            }
        }
        out.println(passed + " passed, " + failed + " failed");
        return failed == 0 && passed > 0;
    }

    /** Opens the device that computes expected values. */
    static Device reference() {
        return Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("")));
    }

    /** Device options; only the CPU has a thread count. */
    static DeviceOptions options(Backend backend, int threads, Path kernelCache) {
        return options(backend, threads, kernelCache, Set.of());
    }

    private static DeviceOptions options(Backend backend, int threads, Path kernelCache, Set<String> hidden) {
        return new DeviceOptions(0, backend.name().equals("cpu") ? threads : 0, kernelCache, hidden);
    }
}
