package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.conformance.emulator.GpuModel;
import dev.starforge.kernels.Kernel;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/**
 * Changes the text of portable kernels at random and counts how many changes the conformance suite notices. On demand: {@code
 * -Dmutations=200} makes this many mutants, which takes minutes; survivors are printed, and most of them compute the same.
 */
@EnabledIfSystemProperty(named = "mutations", matches = "\\d+")
final class MetalMutationTest {
    private static final double LEAST_CAUGHT = 0.95;
    private static final int CASES_PER_KERNEL = 6;

    /** A pattern in one line, and what replaces it. None makes a loop endless. */
    private record Mutation(Pattern from, String to) {
        Mutation(String from, String to) {
            this(Pattern.compile(from), to);
        }
    }

    private static final List<Mutation> MUTATIONS = List.of(
            new Mutation(" < ", " <= "),
            new Mutation(" <= ", " < "),
            new Mutation("(?m)(?<!for \\(.{0,80}) > ", " >= "),
            new Mutation("(?m)(?<!for \\(.{0,80}) >= ", " > "),
            new Mutation("(?m)(?<!for \\(.{0,80}) \\+ ", " - "),
            new Mutation("(?m)(?<!for \\(.{0,80}) - ", " + "),
            new Mutation("(?m)(?<!for \\(.{0,80}) \\* ", " + "),
            new Mutation("(?m)(?<!for \\(.{0,80}) \\+= ", " = "),
            new Mutation(" == ", " != "),
            new Mutation(" && ", " || "),
            new Mutation("BARRIER\\(\\);", ";"),
            new Mutation("1\\.0f", "1.5f"),
            new Mutation("THREAD == 0", "THREAD == GROUP"));

    /** One change: {@code at} is the offset in the text that begins with the kernel. */
    private record Mutant(Kernel kernel, Mutation mutation, int at, String line) implements UnaryOperator<String> {
        @Override
        public String apply(String program) {
            int begin = program.indexOf("KERNEL(" + kernel.symbol() + ",");
            if (begin < 0) {
                return program;
            }
            var match = mutation.from.matcher(program);
            return match.find(begin + at)
                    ? program.substring(0, match.start()) + mutation.to + program.substring(match.end())
                    : program;
        }

        @Override
        public String toString() {
            return kernel.symbol() + ": \"" + mutation.from + "\" to \"" + mutation.to + "\" in: " + line.strip();
        }
    }

    private final EmulatedBackend backend = new EmulatedBackend(GpuModel.APPLE);

    @Test
    void suiteNoticesMutations() {
        Map<Kernel, List<Case>> cases = cases();
        List<Kernel> kernels = List.copyOf(cases.keySet());
        Random random = new Random(35);
        int wanted = Integer.getInteger("mutations");
        List<Mutant> survivors = new ArrayList<>();
        for (int i = 0; i < wanted; i++) {
            Mutant mutant = draw(kernels.get(random.nextInt(kernels.size())), random);
            if (!isNoticed(mutant, cases.get(mutant.kernel))) {
                survivors.add(mutant);
                System.out.println("survivor " + mutant);
            }
        }
        System.out.println("mutations: " + (wanted - survivors.size()) + " of " + wanted + " noticed");
        assertThat(survivors).hasSizeLessThanOrEqualTo((int) Math.ceil((1 - LEAST_CAUGHT) * wanted));
    }

    /** The smallest cases that launch each portable kernel without conditional parts. */
    private Map<Kernel, List<Case>> cases() {
        Map<Kernel, List<Case>> cases = new EnumMap<>(Kernel.class);
        List<Case> all = Cases.all().stream()
                .sorted(Comparator.comparingLong(MetalMutationTest::elements))
                .toList();
        for (Case c : all) {
            CaseCoverage.launches(backend, c).stream()
                    .map(Variant::kernel)
                    .distinct()
                    .filter(kernel -> elements(c) > 8 && !body(kernel).contains("#if"))
                    .map(kernel -> cases.computeIfAbsent(kernel, each -> new ArrayList<>()))
                    .forEach(list -> list.add(c));
        }
        cases.replaceAll((kernel, list) -> spread(list));
        return cases;
    }

    private static long elements(Case c) {
        return List.of(c.specs()).stream()
                .mapToLong(spec -> spec.shape().size())
                .sum();
    }

    private static List<Case> spread(List<Case> all) {
        List<Case> some = new ArrayList<>();
        for (int i = 0; i < Math.min(CASES_PER_KERNEL, all.size()); i++) {
            some.add(all.get(i * all.size() / Math.min(CASES_PER_KERNEL, all.size())));
        }
        return some;
    }

    private static String body(Kernel kernel) {
        String program = new Variant(kernel, List.of()).program("");
        int begin = program.indexOf("KERNEL(" + kernel.symbol() + ",");
        return program.substring(begin, program.indexOf("\n}\n", begin));
    }

    private static Mutant draw(Kernel kernel, Random random) {
        String body = body(kernel);
        int brace = body.indexOf(") {\n");
        List<Mutant> all = new ArrayList<>();
        for (Mutation mutation : MUTATIONS) {
            for (MatchResult match : mutation.from.matcher(body).results().toList()) {
                String line = body.substring(
                        body.lastIndexOf('\n', match.start()) + 1,
                        Math.max(match.end(), body.indexOf('\n', match.end())));
                if (match.start() > brace && !line.contains("while (") && line.indexOf("//") < 0) {
                    all.add(new Mutant(kernel, mutation, match.start(), line));
                }
            }
        }
        return all.get(random.nextInt(all.size()));
    }

    private boolean isNoticed(Mutant mutant, List<Case> cases) {
        try (Device device = backend.open(mutant);
                Device reference = ConformanceMain.reference()) {
            Conformance conformance = new Conformance(backend, device, device, reference);
            for (Case c : cases) {
                conformance.checks(c).forEach(check -> conformance.run(check, c));
            }
            return false;
        } catch (ConformanceFailure | DeviceException noticed) {
            return true;
        }
    }
}
