package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.metal.StandIn;
import dev.starforge.tensor.device.Backend;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The Metal backend on a library that stands in for Metal and runs kernels in the emulator, whose checks of host code must all pass. By
 * default one case of each operation; {@code -Dfull} runs all.
 */
final class MetalStandInConformanceTest extends BackendConformanceTest {
    private @Nullable StandIn standIn;

    MetalStandInConformanceTest() {
        super("metal");
    }

    @Override
    Backend backend() {
        standIn = StandIn.open();
        standIn.violations();
        return super.backend();
    }

    @Override
    List<Case> selectedCases() {
        List<Case> all = super.selectedCases();
        return System.getProperty("full") != null || System.getProperty("only") != null ? all : oneOfEach(all);
    }

    private static List<Case> oneOfEach(List<Case> all) {
        Set<String> seen = new HashSet<>();
        List<Case> chosen = new ArrayList<>();
        for (Case c : all) {
            if (seen.add(c.op().name())) {
                chosen.add(c);
            }
        }
        return chosen;
    }

    @Override
    void close() {
        super.close();
        if (standIn != null) {
            String violations = standIn.violations();
            String live = standIn.live();
            standIn.close();
            assertThat(violations).isEmpty();
            assertThat(live).isEmpty();
        }
    }
}
