package dev.starforge.conformance;

import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Backward;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Ops;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Generates the table of operations and backends from the support that backends declare for the cases of the suite:
 * {@code ./dev conformance table docs/ops.md}. A test fails if the checked-in table is out of date.
 */
public final class OpsTable {
    private static final List<String> BACKENDS = List.of("reference", "cpu", "cuda", "metal");

    private OpsTable() {}

    public static void main(String[] args) throws IOException {
        if (args.length != 1) {
            System.err.println("usage: FILE");
            System.exit(2);
        }
        Files.writeString(Path.of(args[0]), render(Selection.backends()));
    }

    static String render(List<Backend> backends) {
        Map<Class<?>, List<Case>> byOp = new LinkedHashMap<>();
        Cases.all().stream()
                .sorted(Comparator.comparing((Case c) -> c.op() instanceof Fused)
                        .thenComparing(c -> c.op().name()))
                .forEach(c -> byOp.computeIfAbsent(c.op().getClass(), op -> new ArrayList<>())
                        .add(c));
        StringBuilder table = new StringBuilder("""
            # Operations

            Generated from what the backends declare; do not edit. A test tells how to write it again.

            *native*: the backend has a kernel. *expanded*: it runs the operation's definition, other operations on the
            same device. *partly*: native for some element types or shapes; others are expanded or, if they are quantized,
            refused. —: it cannot run it.
            A plain operation has no definition but itself; a fused one is defined by its expansion. *Overwrites* names
            the inputs, counted from 0, that the operation changes.
            Metal's kernels have not run on hardware: [metal](metal.md) says what was proven without it.

            | operation | kind | gradient | overwrites |\
            """);
        BACKENDS.forEach(name -> table.append(' ').append(name).append(" |"));
        table.append("\n|---|---|---|---|")
                .append("---|".repeat(BACKENDS.size()))
                .append('\n');
        byOp.forEach((op, cases) -> {
            table.append("| ").append(op.getSimpleName());
            table.append(" | ").append(Fused.class.isAssignableFrom(op) ? "fused" : "plain");
            table.append(" | ").append(hasGradient(op) ? "yes" : "");
            table.append(" | ").append(overwrites(cases));
            for (String name : BACKENDS) {
                table.append(" | ").append(support(name, backends, cases));
            }
            table.append(" |\n");
        });
        return table.toString().replace("|  |", "| |").replace("|  |", "| |");
    }

    /** Returns true if the operation has a gradient rule, or is recorded as operations that have one. */
    static boolean hasGradient(Class<?> op) {
        try {
            return Layers.class.isAssignableFrom(op)
                    || op.getMethod("gradient", Ops.class, Backward.class).getDeclaringClass() == op;
        } catch (NoSuchMethodException impossible) {
            throw new IllegalStateException(op + " is not an operation", impossible);
        }
    }

    private static String overwrites(List<Case> cases) {
        TreeSet<Integer> inputs = new TreeSet<>();
        for (Case c : cases) {
            for (int i = 0; i < c.inputs().size(); i++) {
                if (c.op().mutates(i)) {
                    inputs.add(i);
                }
            }
        }
        return String.join(", ", inputs.stream().map(String::valueOf).toList());
    }

    private static String support(String name, List<Backend> backends, List<Case> cases) {
        for (Backend backend : backends) {
            if (backend.name().equals(name)) {
                Set<Support> declared = EnumSet.noneOf(Support.class);
                cases.forEach(c -> declared.add(backend.supports(c.op(), c.specs())));
                return declared.size() > 1 ? "partly" : word(declared.iterator().next());
            }
        }
        return word(Support.NONE);
    }

    private static String word(Support support) {
        return switch (support) {
            case NATIVE -> "native";
            case EXPANDED -> "expanded";
            case NONE -> "—";
        };
    }
}
