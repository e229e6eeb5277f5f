package dev.starforge.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The kernel sources and the host side's table of them agree. */
class KernelsTest {
    /** KERNEL(name, ...) or a file's own macro around it: upper case at the start of a line. */
    private static final Pattern DEFINITION = Pattern.compile("(?m)^[A-Z_]+\\((\\w+),");

    private static final Pattern CUDA_BUILTIN = Pattern.compile("__\\w+|threadIdx|blockIdx|blockDim|gridDim|asm\\(");

    static Set<String> files() {
        return Stream.of(Kernel.values()).map(Kernel::file).collect(Collectors.toCollection(TreeSet::new));
    }

    @ParameterizedTest
    @MethodSource("files")
    void theTableNamesExactlyTheKernelsOfAFile(String file) {
        List<String> defined = DEFINITION
                .matcher(Kernels.resource(file + ".cu"))
                .results()
                .map(match -> match.group(1))
                .sorted()
                .toList();
        List<String> named = Stream.of(Kernel.values())
                .filter(kernel -> kernel.file().equals(file))
                .map(Kernel::symbol)
                .sorted()
                .toList();
        assertEquals(named, defined);
    }

    @ParameterizedTest
    @MethodSource("files")
    void kernelsAreWrittenInTheDialect(String file) {
        assertEquals(List.of(), builtins(file + ".cu"));
    }

    @Test
    void whatKernelsShareIsWrittenInTheDialect() {
        assertEquals(List.of(), builtins("common.cuh"));
        assertFalse(builtins("prelude.cuh").isEmpty());
    }

    private static List<String> builtins(String resource) {
        return CUDA_BUILTIN
                .matcher(Kernels.resource(resource))
                .results()
                .map(MatchResult::group)
                .toList();
    }

    @Test
    void groupsAreAsLargeOnBothSides() {
        assertTrue(Kernels.resource("prelude.cuh").contains("#define GROUP " + Launcher.GROUP + "\n"));
    }
}
