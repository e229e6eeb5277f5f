package dev.starforge.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.op.Fn;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
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

    static Stream<Arguments> sharedNumbers() {
        return Stream.of(
                        Stream.of(
                                Arguments.of("prelude.cuh", "GROUP", Launcher.GROUP),
                                Arguments.of("common.cuh", "TILE", Dispatch.TILE),
                                Arguments.of("common.cuh", "FEW", Dispatch.FEW),
                                Arguments.of("rows.cu", "MAX_RANK", Dispatch.MAX_RANK),
                                Arguments.of("experts.cu", "MAX_ROUTE_GROUPS", Dispatch.MAX_ROUTE_GROUPS)),
                        Stream.of(Fn.values()).map(fn -> Arguments.of("common.cuh", "FN_" + fn, Dispatch.code(fn))),
                        Stream.of(DType.values())
                                .filter(type -> type.isFloat() || type == DType.I32)
                                .map(type -> Arguments.of("common.cuh", "TYPE_" + type, Dispatch.code(type))))
                .flatMap(numbers -> numbers);
    }

    @ParameterizedTest
    @MethodSource
    void sharedNumbers(String resource, String name, int value) {
        assertTrue(Kernels.resource(resource).contains("#define " + name + " " + value + "\n"));
    }
}
