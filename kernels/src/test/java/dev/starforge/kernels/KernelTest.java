package dev.starforge.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Fn;
import java.lang.reflect.Proxy;
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

/** The kernel sources and the table of them agree. */
class KernelTest {
    private static final Pattern DEFINITION = Pattern.compile("(?m)^KERNEL\\((\\w+),");

    private static final Pattern CUDA_BUILTIN = Pattern.compile("__\\w+|threadIdx|blockIdx|blockDim|gridDim|asm\\(");

    static Set<String> files() {
        return Stream.of(Kernel.values()).map(Kernel::file).collect(Collectors.toCollection(TreeSet::new));
    }

    @ParameterizedTest
    @MethodSource("files")
    void enumMatchesKernelsOfSource(String file) {
        List<String> defined = DEFINITION
                .matcher(Variant.source(file))
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
    void kernelsUseOnlyTheDialect(String file) {
        assertEquals(List.of(), builtins(file));
    }

    @Test
    void sharedSourcesUseOnlyTheDialect() {
        assertEquals(List.of(), builtins("common"));
    }

    /** Words of the Metal Shading Language, which kernels must not use as names. */
    private static final Pattern METAL_WORD =
            Pattern.compile("\\b(half|bfloat|device|constant|thread|threadgroup|kernel|vertex|fragment"
                    + "|uint|ushort|uchar|ulong|sampler|metal|as_type|long long|if constexpr)\\b");

    @ParameterizedTest
    @MethodSource("files")
    void kernelsUseNoMetalKeywordsAsNames(String file) {
        for (Kernel kernel : Kernel.values()) {
            if (kernel.file().equals(file) && kernel.sibling().isEmpty()) {
                for (String source : kernel.files()) {
                    String code = Variant.source(source).replaceAll("//.*", "");
                    assertEquals(
                            List.of(),
                            METAL_WORD
                                    .matcher(code)
                                    .results()
                                    .map(MatchResult::group)
                                    .distinct()
                                    .toList(),
                            source);
                }
            }
        }
    }

    @Test
    void smallMKernelsFitIntoSmallSharedMemory() {
        assertEquals(MatMuls.SMALL_M_SHARED_BYTES, Kernel.MATMUL_SMALL_M.sharedBytes(48 << 10));
        assertEquals(MatMuls.SMALL_M_COMPACT_SHARED_BYTES, Kernel.MATMUL_SMALL_M.sharedBytes(32 << 10));
        for (Kernel kernel : Kernel.values()) {
            assertTrue(kernel.sibling().isPresent() || kernel.sharedBytes(32 << 10) <= 32 << 10, kernel.symbol());
        }
    }

    @Test
    void launchesOnlyWhatTheDeviceRuns() {
        Launcher apple = (Launcher) Proxy.newProxyInstance(
                Launcher.class.getClassLoader(),
                new Class<?>[] {Launcher.class},
                (proxy, method, arguments) -> method.getName().equals("siblings") ? Set.of(Sibling.WGMMA) : 32 << 10);
        DeviceException sibling =
                assertThrows(DeviceException.class, () -> new KernelCall(apple, Kernel.DECODE_ATTENTION).groups(1));
        assertEquals("DecodeAttention: needs MMA, the device has [WGMMA]", sibling.getMessage());
        DeviceException shared =
                assertThrows(DeviceException.class, () -> new KernelCall(apple, Kernel.FLASH_ATTENTION).groups(1));
        assertEquals("FlashAttention: needs 32800 bytes of shared memory, the device has 32768", shared.getMessage());
    }

    private static List<String> builtins(String file) {
        return CUDA_BUILTIN
                .matcher(Variant.source(file))
                .results()
                .map(MatchResult::group)
                .toList();
    }

    static Stream<Arguments> constantsMatchJava() {
        return Stream.concat(
                Stream.of(
                        Arguments.of("common", "TILE", MatMuls.TILE),
                        Arguments.of("common", "SMALL_M", MatMuls.SMALL_M),
                        Arguments.of("weight_tiles", "TILE_ROWS", WeightTiles.ROWS),
                        Arguments.of("weight_tiles", "FRAGMENT_K", WeightTiles.FRAGMENT_COLUMNS),
                        Arguments.of("repack_weights", "MAX_PLANES", QuantizedWeights.MAX_PLANES),
                        Arguments.of("flash_attention", "QUERIES_PER_GROUP", FlashAttention.QUERIES_PER_GROUP),
                        Arguments.of("flash_attention_grad", "QUERIES_PER_GROUP", FlashAttention.QUERIES_PER_GROUP),
                        Arguments.of("decode_attention", "KEYS_PER_STEP", FlashAttention.KEYS_PER_STEP),
                        Arguments.of("rows", "MAX_RANK", RowOps.MAX_RANK),
                        Arguments.of("common", "ROWS_PER_GROUP", RowOps.ROWS_PER_GROUP),
                        Arguments.of("experts", "MAX_ROUTE_GROUPS", MatMuls.MAX_ROUTE_GROUPS)),
                Stream.of(Fn.values()).map(fn -> Arguments.of("common", "FN_" + fn, Dispatch.code(fn))));
    }

    @ParameterizedTest
    @MethodSource
    void constantsMatchJava(String file, String name, int value) {
        assertTrue(Variant.source(file).contains("#define " + name + " " + value + "\n"));
    }

    @Test
    void variantsAreEqualByKernelAndMacros() {
        Variant plain = new Variant(Kernel.CAST, List.of());
        Variant narrowing = new Variant(Kernel.CAST, List.of("X i32", "Y bf16"));
        assertEquals("elementwise", plain.unitName());
        assertEquals("elementwise-X=i32-Y=bf16", narrowing.unitName());
        assertTrue(narrowing
                .program("// prelude\n")
                .startsWith("// prelude\n#define X i32\n#define Y bf16\n#line 1 \"common.kernel\"\n"));
        assertThrows(DeviceException.class, () -> new Variant(Kernel.CAST, List.of("Y bf16", "X i32")));
    }

    @Test
    void launchSizeIsLimited() {
        Variant fill = new Variant(Kernel.FILL, List.of());
        DeviceException thrown = assertThrows(DeviceException.class, () -> new Launch(fill, List.of(), 1, 65536, 1));
        assertTrue(thrown.getMessage().startsWith("Fill: 1 x 65536 x 1 groups: expected 1 to "), thrown.getMessage());
    }
}
