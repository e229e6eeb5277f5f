package dev.starforge.cpu.matmul;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.cpu.CpuBackend;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What the conformance suite cannot ask: refusals, and that the plan of scratch memory holds however tokens choose. */
final class ExpertsTest {
    private final Device device = new CpuBackend().open(new DeviceOptions(0, 2, Path.of("unused")));
    private final Scope scope = new Scope(device);

    @AfterEach
    void close() {
        scope.close();
        device.close();
    }

    private Tensor ints(int[] values, long... dims) {
        Tensor tensor = scope.allocate(Spec.i32(dims));
        device.write(tensor, values);
        return tensor;
    }

    private Tensor zeros(long... dims) {
        Tensor tensor = scope.allocate(Spec.f32(dims));
        device.run(new Plain.Fill(tensor.spec(), 0), new Tensor[0], new Tensor[] {tensor});
        return tensor;
    }

    private void run(Op op, Tensor... in) {
        Spec[] specs = Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new);
        device.run(op, in, Arrays.stream(op.outputs(specs)).map(scope::allocate).toArray(Tensor[]::new));
    }

    @ParameterizedTest
    @CsvSource({"-1", "3"})
    void aChoiceOfNoExpertIsRefused(int expert) {
        assertThatThrownBy(() -> run(new Routing.Group(3), ints(new int[] {0, 2, expert, 1}, 2, 2)))
                .isInstanceOf(TensorException.class)
                .hasMessage("Group: choice 2 is expert " + expert + " of 3");
    }

    @ParameterizedTest
    @CsvSource({"0, 2, 4, rows are left", "1, 2, 5, a row before them", "0, 3, 2, descending", "0, 2, 6, too many"})
    void offsetsThatAreNotThoseOfTheRowsAreRefused(int first, int second, int third, String what) {
        Tensor offsets = ints(new int[] {first, second, third}, 3);
        assertThatThrownBy(() -> run(new Routing.ExpertMatMul(true), zeros(5, 7), zeros(2, 3, 7), offsets))
                .as(what)
                .isInstanceOf(TensorException.class)
                .hasMessageStartingWith("ExpertMatMul: ");
        assertThatThrownBy(() -> run(new Routing.ExpertOuter(), zeros(5, 7), zeros(5, 3), offsets))
                .as(what)
                .isInstanceOf(TensorException.class)
                .hasMessageStartingWith("ExpertOuter: ");
    }

    /** All rows with one expert is the most an expert can have, and what is planned for. */
    @Test
    void noShareOfTheRowsNeedsMoreScratchThanAllOfThem() {
        for (int rows = 1; rows < 300; rows++) {
            for (boolean transposed : new boolean[] {false, true}) {
                assertFits(matmul(false, transposed, rows - 1, 65, 530), matmul(false, transposed, rows, 65, 530));
            }
            assertFits(matmul(true, false, 67, 65, rows - 1), matmul(true, false, 67, 65, rows));
        }
    }

    private static MatMul matmul(boolean ta, boolean tb, long m, long n, long k) {
        return new MatMul(new MachineCode.Availability(Optional.empty(), "not asked for"), false, ta, tb, m, n, k);
    }

    private static void assertFits(MatMul share, MatMul all) {
        assertThat(share.scratch().shared()).isLessThanOrEqualTo(all.scratch().shared());
        assertThat(share.scratch().each()).isLessThanOrEqualTo(all.scratch().each());
    }

    @Test
    void theWorkspaceIsThatOfAllRowsWithOneExpert() {
        int[] offsets = {0, 30, 30, 40};
        Tensor x = zeros(40, 65);
        for (boolean transposed : new boolean[] {false, true}) {
            Tensor[] in = {x, zeros(3, 65, 65), ints(offsets, 4)};
            Tensor own = zeros(65, 65);
            assertThat(holds(new Routing.ExpertMatMul(transposed), in))
                    .isEqualTo(holds(new Plain.MatMul(false, transposed), x, own));
        }
        assertThat(holds(new Routing.ExpertOuter(), x, x, ints(offsets, 4)))
                .isEqualTo(holds(new Plain.MatMul(true, false), x, x));
    }

    /** On a device that has run nothing yet, what is held afterwards is what was planned. */
    private long holds(Op op, Tensor... in) {
        try (Device fresh = new CpuBackend().open(new DeviceOptions(0, 2, Path.of("unused")))) {
            Spec[] specs = Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new);
            fresh.run(
                    op,
                    in,
                    Arrays.stream(op.outputs(specs)).map(scope::allocate).toArray(Tensor[]::new));
            assertThat(fresh.workspaceBytes()).isEqualTo(fresh.workspace(op, specs));
            return fresh.workspaceBytes();
        }
    }
}
