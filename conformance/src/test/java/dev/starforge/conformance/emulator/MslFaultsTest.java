package dev.starforge.conformance.emulator;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.kernels.Kernel;
import dev.starforge.kernels.Variant;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** {@link MslCheck} finds faults that Metal's compiler would refuse. Each is planted into the text of a real kernel. */
final class MslFaultsTest {
    private final MslCompiler compiler = Emulator.requireMsl();

    private static final String SOFTMAX = program(Kernel.SOFTMAX);
    private static final String RMS_NORM = program(Kernel.RMS_NORM);
    private static final String MATMUL = program(Kernel.MATMUL);

    private static final String FILE_SCOPE = "// Softmax and related reductions, one group per row.\n";
    private static final String FIRST = "float best_value = -F32_INFINITY;";
    private static final String MAX = "max = group_max(max, scratch);";

    private static String program(Kernel kernel) {
        return new Variant(kernel, List.of()).program(Emulator.METAL_PRELUDE);
    }

    static Stream<Arguments> faults() {
        return Stream.of(addressSpaces(), memory(), functions(), parameters(), names(), language())
                .flatMap(each -> each);
    }

    private static Arguments fault(String name, String program, String from, String to) {
        return Arguments.of(name, program, from, to);
    }

    private static Stream<Arguments> addressSpaces() {
        return Stream.of(
                fault(
                        "reference without an address space",
                        SOFTMAX,
                        "PRIVATE float (&values)[LOADS_IN_FLIGHT]",
                        "float (&values)[LOADS_IN_FLIGHT]"),
                fault(
                        "pointer parameter without an address space",
                        RMS_NORM,
                        "GLOBAL(const float) w, GLOBAL(X) y",
                        "const float* w, GLOBAL(X) y"),
                fault(
                        "local pointer without an address space",
                        SOFTMAX,
                        "float lse = row_lse(x +",
                        "const float* p = x; float lse = row_lse(x +"),
                fault("device for threadgroup", SOFTMAX, MAX, "max = group_max(max, y);"),
                fault("threadgroup for device", RMS_NORM, "rms_norm(x, w, y,", "rms_norm(x, scratch, y,"),
                fault(
                        "cast between address spaces",
                        SOFTMAX,
                        FIRST,
                        FIRST + " threadgroup float* p = (threadgroup float*)y; best_value = p[0];"),
                fault(
                        "ternary of two address spaces",
                        RMS_NORM,
                        "rms_norm(x, w, y,",
                        "rms_norm(c > 3 ? x : scratch, w, y,"),
                fault("write through const", SOFTMAX, "y[row + i] = expf", "x[row + i] = expf"));
    }

    private static Stream<Arguments> memory() {
        return Stream.of(
                fault("static local", SOFTMAX, "    float sum = 0;\n", "    static float sum = 0;\n"),
                fault(
                        "threadgroup array in a function",
                        SOFTMAX,
                        "FUNCTION float group_max(float x, LOCAL(float) scratch) {",
                        "FUNCTION float group_max(float x, LOCAL(float) scratch) { threadgroup float more[8]; more[0] = x;"),
                fault(
                        "threadgroup array in an inner scope",
                        SOFTMAX,
                        MAX,
                        "{ threadgroup float more[8]; max = group_max(max, more); }"),
                fault(
                        "threadgroup array with an initializer",
                        SOFTMAX,
                        "    float max = -F32_INFINITY;\n    for",
                        "    threadgroup float more[8] = {}; float max = more[0];\n    for"),
                fault("mutable global", SOFTMAX, FILE_SCOPE, "float counter = 0;\n"),
                fault("table that is not constant", SOFTMAX, FILE_SCOPE, "const float counter[2] = {1, 2};\n"),
                fault(
                        "too much threadgroup memory",
                        MATMUL,
                        "SHARED(float, as, K_STEP * TILE_PITCH);",
                        "SHARED(float, as, 9000);"),
                fault(
                        "variable-length array",
                        SOFTMAX,
                        FIRST,
                        "float some[width]; " + FIRST + " some[0] = best_value;"));
    }

    private static Stream<Arguments> functions() {
        return Stream.of(
                fault(
                        "recursion",
                        SOFTMAX.replace(
                                FILE_SCOPE,
                                "FUNCTION int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }\n"),
                        "SHARED(float, value, GROUP);",
                        "SHARED(float, value, GROUP); int f = factorial(width);"),
                fault(
                        "function pointer",
                        SOFTMAX,
                        FILE_SCOPE,
                        "FUNCTION float call(float (*f)(float), float x) { return f(x); }\n"),
                fault("virtual function", SOFTMAX, FILE_SCOPE, "struct V { virtual int f() { return 1; } };\n"),
                fault(
                        "lambda",
                        SOFTMAX,
                        FIRST,
                        "auto f = [](float x) { return x; }; float best_value = f(-F32_INFINITY);"),
                fault("function of C", SOFTMAX, "sum += expf(x[row + i] - max);", "sum += fabsf(x[row + i] - max);"));
    }

    private static Stream<Arguments> parameters() {
        String parameters = "OUT(float, y), ARG(i64, width)) {\n    SHARED(float, scratch";
        return Stream.of(
                fault("half parameter", SOFTMAX, parameters, parameters.replace("ARG", "half h, ARG")),
                fault(
                        "thread pointer parameter",
                        SOFTMAX,
                        parameters,
                        parameters.replace("ARG", "thread float* h, ARG")));
    }

    private static Stream<Arguments> names() {
        return Stream.of("half", "device", "kernel", "thread", "vertex", "fragment")
                .map(word -> fault(
                        "name " + word, SOFTMAX, FIRST, FIRST + " int " + word + " = 0; best_value += " + word + ";"));
    }

    private static Stream<Arguments> language() {
        return Stream.of(
                fault("double", SOFTMAX, "    float sum = 0;\n    for (i64", "    double sum = 0;\n    for (i64"),
                fault("new", SOFTMAX, "    float sum = 0;\n", "    float sum = *new float(0);\n"),
                fault("long long", SOFTMAX, FILE_SCOPE, "typedef long long i65;\n"),
                fault("if constexpr", SOFTMAX, FIRST, FIRST + " if constexpr (GROUP > 1) { best_value = 0; }"),
                fault("exceptions", SOFTMAX, FIRST, FIRST + " try { best_value = 1; } catch (...) {}"),
                fault("goto", SOFTMAX, FIRST, FIRST + " goto out; out: best_value = -F32_INFINITY;"),
                fault(
                        "as_type of another size",
                        SOFTMAX,
                        FIRST,
                        "float best_value = as_type<float>((unsigned short)3);"),
                fault(
                        "unknown barrier flag",
                        SOFTMAX,
                        FIRST,
                        FIRST + " metal::threadgroup_barrier(metal::mem_flags::mem_shared);"));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("faults")
    void findsFault(String name, String program, String from, String to) {
        assertThat(program).contains(from);
        int at = program.indexOf(from);
        String planted = program.substring(0, at) + to + program.substring(at + from.length());
        assertThat(MslCheck.of(compiler, planted).faults()).isNotEmpty();
    }

    /** Neither is a fault: literals are float in Metal, and a function that nothing calls is not compiled. */
    @ParameterizedTest
    @MethodSource
    void acceptsWhatMetalAccepts(String program) {
        assertThat(MslCheck.of(compiler, program).faults()).isEmpty();
    }

    static Stream<String> acceptsWhatMetalAccepts() {
        return Stream.of(
                SOFTMAX.replace("sum += expf(x[row + i] - max);", "sum += 1.0 * expf(x[row + i] - max);"),
                SOFTMAX.replace(
                        FILE_SCOPE, "FUNCTION int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }\n"));
    }
}
