package dev.starforge.cpu.machine;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * CPU feature flags as named by Linux: /proc/cpuinfo lists an instruction set only if the kernel also saves its
 * registers, which {@code cpuid} alone does not say.
 */
record CpuFeatures(Set<String> flags) {
    private static final Path CPUS = Path.of("/proc/cpuinfo");
    private static final Set<String> AVX512 = Set.of("avx512f", "avx512bw", "avx512vl", "avx512_vnni");
    private static final String BF16 = "avx512_bf16";
    private static final Set<String> AVX2 = Set.of("avx2", "fma", "f16c");

    /** All flags that this class checks, in alphabetical order. */
    static final Set<String> ASKED =
            Stream.of(AVX512, Set.of(BF16), AVX2).flatMap(Set::stream).collect(Collectors.toCollection(TreeSet::new));

    CpuFeatures {
        flags = Set.copyOf(flags);
    }

    /** Returns the flags of this machine; empty if /proc/cpuinfo is not available. */
    static CpuFeatures ofMachine() {
        try (Stream<String> lines = Files.lines(CPUS, StandardCharsets.UTF_8)) {
            return new CpuFeatures(lines.filter(line -> line.startsWith("flags"))
                    .findFirst()
                    .map(line -> Set.copyOf(List.of(
                            line.substring(line.indexOf(':') + 1).strip().split("\\s+"))))
                    .orElse(Set.of()));
        } catch (IOException | RuntimeException e) {
            return new CpuFeatures(Set.of());
        }
    }

    CpuFeatures without(Set<String> hidden) {
        return new CpuFeatures(
                flags.stream().filter(flag -> !hidden.contains(flag)).collect(Collectors.toSet()));
    }

    boolean avx512() {
        return flags.containsAll(AVX512);
    }

    /** Returns true if the CPU has dot products of bf16 pairs. */
    boolean bf16() {
        return avx512() && flags.contains(BF16);
    }

    boolean avx2() {
        return flags.containsAll(AVX2);
    }
}
