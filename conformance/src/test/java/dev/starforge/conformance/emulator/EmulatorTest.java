package dev.starforge.conformance.emulator;

import static java.util.stream.Collectors.toCollection;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.opentest4j.AssertionFailedError;
import org.opentest4j.TestAbortedException;

/** Tests of the emulator itself; {@link PlantedFaultsTest} tests which faults it finds. */
class EmulatorTest {
    /** A macro that is not taken back, or a function after its return type. */
    private static final Pattern WORD = Pattern.compile(
            "(?ms)^#define (\\w+)\\b(?!.*^#undef \\1\\b)|^FUNCTION \\w+ (\\w+)\\(|^typedef [^\\n]* (\\w+);");

    @Test
    void missingCompilerSkipsTestsExceptInCi() {
        assertThatThrownBy(() -> Emulator.require(Optional.empty(), CxxCompiler.MISSING, false))
                .isInstanceOf(TestAbortedException.class)
                .hasMessageContaining("no C++ compiler");
        assertThatThrownBy(() -> Emulator.require(Optional.empty(), CxxCompiler.MISSING, true))
                .isInstanceOf(AssertionFailedError.class)
                .hasMessageContaining("no C++ compiler");
    }

    /** A macro or function that only one prelude defines would not compile everywhere. */
    @Test
    void preludesDefineTheSameDialect() throws IOException {
        assertThat(words("/dev/starforge/conformance/emulator/host.prelude"))
                .isEqualTo(words("/dev/starforge/cuda/cuda.prelude"));
    }

    /** The Metal prelude has the words of the portable kernels, and a few of its own: variables, and what the emulator replaces. */
    @Test
    void metalPreludeDefinesOnlyTheDialect() throws IOException {
        Set<String> own = new TreeSet<>(words("/dev/starforge/metal/metal.prelude"));
        own.removeAll(words("/dev/starforge/cuda/cuda.prelude"));
        // the C library that the others include has these functions
        assertThat(own).containsExactly("SHARED_DECLARED", "cosf", "expf", "logf", "sinf", "sqrtf");
    }

    private static Set<String> words(String prelude) throws IOException {
        try (InputStream stream = EmulatorTest.class.getResourceAsStream(prelude)) {
            String text = new String(stream.readAllBytes(), StandardCharsets.US_ASCII);
            return WORD.matcher(text)
                    .results()
                    .map(word -> word.group(1) != null
                            ? word.group(1)
                            : word.group(2) != null ? word.group(2) : word.group(3))
                    .collect(toCollection(TreeSet::new));
        }
    }
}
