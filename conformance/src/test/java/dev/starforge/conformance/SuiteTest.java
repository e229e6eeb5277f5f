package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.conformance.Conformance.Check;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Tests of the suite itself: it covers all operations and finds planted faults. */
final class SuiteTest {
    private static final String NORM = "RmsNorm(eps=1.0E-5) F32[5, 7] x F32[7]";
    private static final String ADAM = Cases.all().stream()
            .map(Case::toString)
            .filter(name -> name.startsWith("AdamW"))
            .findFirst()
            .orElseThrow();

    private final Device reference = ConformanceMain.reference();

    @Test
    void everyOperationHasACase() {
        Set<Class<?>> all = new HashSet<>();
        records(Op.class, all);
        Set<Class<?>> asked = Cases.all().stream().map(c -> c.op().getClass()).collect(Collectors.toSet());
        assertThat(all).hasSizeGreaterThan(30);
        assertThat(asked).isEqualTo(all);
    }

    @Test
    void everyGradientRuleHasACase() {
        Set<Class<?>> all = new HashSet<>();
        records(Op.class, all);
        all.removeIf(op -> !OpsTable.hasGradient(op));
        Set<Class<?>> asked = Cases.all().stream()
                .filter(c -> !c.wanted().isEmpty())
                .map(c -> c.op().getClass())
                .collect(Collectors.toSet());
        assertThat(all).hasSizeGreaterThan(15);
        assertThat(asked).isEqualTo(all);
    }

    @Test
    void activationsAreTestedInEveryType() {
        for (DType type : List.of(DType.F16, DType.BF16)) {
            Set<Class<?>> asked = Cases.all().stream()
                    .filter(c -> TypedCases.of(c) == type && !hasItsOwnType(c.op()))
                    .map(c -> c.op().getClass())
                    .collect(Collectors.toSet());
            Set<Class<?>> all = Cases.all().stream()
                    .filter(c -> c.op() instanceof Plain.Fill
                            || IntStream.range(0, c.inputs().size()).anyMatch(i -> TypedCases.isActivation(c.op(), i)))
                    .map(c -> c.op().getClass())
                    .collect(Collectors.toSet());
            assertThat(all).hasSizeGreaterThan(25);
            assertThat(asked).isEqualTo(all);
        }
    }

    /** Operations with an explicit output type; their cases list the types. */
    private static boolean hasItsOwnType(Op op) {
        return op instanceof Plain.Cast || op instanceof Fused.CrossEntropyGrad;
    }

    private static void records(Class<?> type, Set<Class<?>> into) {
        if (type.isRecord()) {
            into.add(type);
        } else {
            for (Class<?> permitted : type.getPermittedSubclasses()) {
                records(permitted, into);
            }
        }
    }

    /** Empty batches must work. */
    @Test
    void everyMatMulAndNormIsTestedWithZeroRows() {
        Set<Class<?>> asked = Cases.all().stream()
                .filter(c -> c.specs().length > 0 && c.specs()[0].shape().rows() == 0)
                .map(c -> c.op().getClass())
                .collect(Collectors.toSet());
        assertThat(asked)
                .contains(
                        Plain.MatMul.class,
                        Layers.Linear.class,
                        Layers.AddMatMul.class,
                        Routing.ExpertMatMul.class,
                        Routing.ExpertOuter.class,
                        Adapters.Lora.class,
                        Adapters.ExpertLora.class,
                        Fused.Attention.class,
                        Fused.AttentionGrad.class,
                        Fused.LayerNorm.class,
                        Fused.LayerNormGrad.class,
                        Fused.RmsNorm.class,
                        Fused.RmsNormGrad.class,
                        Layers.AddLayerNorm.class,
                        Layers.AddRmsNorm.class);
    }

    @Test
    void caseNamesAreUnique() {
        assertThat(Cases.all().stream().map(Case::toString)).doesNotHaveDuplicates();
    }

    @Test
    void caseNameStatesOperationAndInputs() {
        assertThat(Cases.all().stream().map(Case::toString))
                .contains("MatMul(transposeB) F32[5, 130] x BF16[13, 130]", "Slice(from=2, to=5) F32[7, 13]");
    }

    @Test
    void inputsAreReproducible() {
        Case c = find("MatMul(transposeB) F32[5, 130] x BF16[13, 130]");
        Case again = find("MatMul(transposeB) F32[5, 130] x BF16[13, 130]");
        assertThat(c.values(reference)[1].firstDifference(again.values(reference)[1]))
                .isEqualTo(-1);
        assertThat(c.values(reference)[0].at(0)).isNotEqualTo(c.values(reference)[0].at(1));
    }

    @Test
    void unmodifiedReferencePasses() {
        for (Check check : Check.values()) {
            assertThatCode(() -> ask(check, NORM, Device::run)).doesNotThrowAnyException();
        }
    }

    @Test
    void findsAWrongValue() {
        fails(Check.VALUE, NORM, "result 0 F32[5, 7]: 1 elements differ; element 17", (device, op, in, out) -> {
            device.run(op, in, out);
            scale(device, out[0], 17, 1.0001f);
        });
    }

    @Test
    void findsAWrongValueInAnOverwrittenInput() {
        fails(Check.VALUE, ADAM, "result 1 F32[7, 13]: 1 elements differ", (device, op, in, out) -> {
            device.run(op, in, out);
            scale(device, in[1], 3, 1.0001f);
        });
    }

    @Test
    void findsAnUnwrittenElement() {
        fails(Check.VALUE, NORM, "output 1 F32[5]: element 4 was not written", (device, op, in, out) -> {
            float before = device.floats(out[1])[4];
            device.run(op, in, out);
            device.write(out[1].view(4, Shape.of(1)), before);
        });
    }

    @Test
    void findsAWriteBeyondTheEnd() {
        fails(
                Check.VALUE,
                NORM,
                "output 0 F32[5, 7]: element 35, outside of it, was overwritten",
                (device, op, in, out) -> {
                    device.run(op, in, out);
                    device.write(out[0].view(35, Shape.of(1)), 0f);
                });
    }

    @Test
    void findsAWriteBeforeTheBeginning() {
        fails(
                Check.VALUE,
                NORM,
                "input 1 F32[7]: element -1, outside of it, was overwritten",
                (device, op, in, out) -> {
                    device.run(op, in, out);
                    device.write(in[1].view(-1, Shape.of(1)), 0f);
                });
    }

    @Test
    void findsAChangedInput() {
        fails(Check.VALUE, NORM, "input 0 F32[5, 7]: element 0 was changed", (device, op, in, out) -> {
            device.run(op, in, out);
            scale(device, in[0], 0, 2);
        });
    }

    @Test
    void findsAReadBeyondTheEnd() {
        fails(Check.VALUE, "Sum(over=LAST) F32[13]", "is NaN", (device, op, in, out) -> {
            Tensor[] longer = {in[0].view(0, Shape.of(14))};
            device.run(op, op instanceof Plain.Sum ? longer : in, out);
        });
    }

    /** Float32 tolerances must detect an operand rounded to TF32's 11 bits in every matmul. */
    @Test
    void findsTf32() {
        FaultyDevice.Fault tf32 = (device, op, in, out) -> {
            float[] exact = device.floats(in[0]);
            float[] rounded = exact.clone();
            for (int i = 0; i < rounded.length; i++) {
                rounded[i] = Float.intBitsToFloat(Float.floatToRawIntBits(exact[i]) + 0x1000 & 0xffffe000);
            }
            device.write(in[0], rounded);
            device.run(op, in, out);
            device.write(in[0], exact);
        };
        FaultyDevice broken = new FaultyDevice(tf32);
        Conformance conformance = new Conformance(broken, broken, broken, reference);
        List<String> passed = new ArrayList<>();
        for (Case c : Cases.all()) {
            boolean product = c.op() instanceof Plain.MatMul
                    || c.op() instanceof Routing.ExpertMatMul
                    || c.op() instanceof Routing.ExpertOuter
                    || c.op() instanceof Layers.Linear
                    || c.op() instanceof Fused.Attention
                    || c.op() instanceof Fused.AttentionGrad;
            if (product
                    && c.specs()[0].dtype() == DType.F32
                    && c.op().outputs(c.specs())[0].bytes() > 0
                    && c.specs()[0].bytes() > 0) {
                try {
                    conformance.run(Check.VALUE, c);
                    passed.add(c.toString());
                } catch (ConformanceFailure found) {
                    assertThat(found).hasMessageContaining("elements differ");
                }
            }
        }
        assertThat(passed).isEmpty();
    }

    @Test
    void findsResultsThatVary() {
        int[] runs = {0};
        fails(Check.REPEAT, NORM, "the second run: result 0", (device, op, in, out) -> {
            device.run(op, in, out);
            scale(device, out[0], 5, 1 + runs[0]++ * 1e-6f);
        });
    }

    private static final FaultyDevice.Fault WRONG_GRADIENT = (device, op, in, out) -> {
        device.run(op, in, out);
        if (op instanceof Fused.RmsNormGrad) {
            scale(device, out[1], 2, 1.1f);
        }
    };

    @Test
    void findsAWrongGradient() {
        fails(Check.GRADIENT, NORM, "away from the reference's, whose norm is", WRONG_GRADIENT);
    }

    /** Gradients of the reference are checked with finite differences. */
    @Test
    void findsAWrongGradientOfTheReference() {
        FaultyDevice device = new FaultyDevice(WRONG_GRADIENT) {
            @Override
            public String name() {
                return "reference";
            }
        };
        Conformance conformance = new Conformance(device, device, device, reference);
        assertThatThrownBy(() -> conformance.run(Check.GRADIENT, find(NORM)))
                .isInstanceOf(ConformanceFailure.class)
                .hasMessageContaining("input 1: the gradient along a random direction");
    }

    @Test
    void findsWrongExpansion() {
        fails(Check.EXPANSION, NORM, "expansion: result 0", (device, op, in, out) -> {
            device.run(op, in, out);
            if (op instanceof Plain.Mul) {
                scale(device, out[0], 0, 1.001f);
            }
        });
    }

    @Test
    void findsDeclaredButMissingKernel() {
        fails(Check.SUPPORT, NORM, "threw", (device, op, in, out) -> {
            throw new UnsupportedOperationException(op.name());
        });
    }

    @Test
    void findsWeightsThatReadBackDifferently() {
        String name = "Cast(to=F32) Q8_0[33, 64]";
        FaultyDevice device = new FaultyDevice(Device::run) {
            @Override
            public void read(Tensor from, ByteBuffer to) {
                super.read(from, to);
                if (from.dtype() == DType.Q8_0) {
                    to.put(70, (byte) (to.get(70) + 1));
                }
            }
        };
        Conformance conformance = new Conformance(device, device, device, reference);
        assertThatThrownBy(() -> conformance.run(Check.SUPPORT, find(name)))
                .isInstanceOf(ConformanceFailure.class)
                .hasMessage("input 0 Q8_0[33, 64]: is not read as it was written");
    }

    @Test
    void findsDeviceWithDifferentSupportThanItsBackend() {
        FaultyDevice device = new FaultyDevice(Device::run);
        FaultyDevice backend = new FaultyDevice(Device::run) {
            @Override
            public Support supports(Op op, Spec... in) {
                return Support.EXPANDED;
            }
        };
        Conformance conformance = new Conformance(backend, device, device, reference);
        assertThatThrownBy(() -> conformance.run(Check.SUPPORT, find(NORM)))
                .isInstanceOf(ConformanceFailure.class)
                .hasMessageContaining("the device declares NATIVE, its backend EXPANDED");
    }

    @Test
    void partsAreAPartitionOfAllCases() {
        List<Case> parts = new ArrayList<>();
        for (String part : List.of("1/3", "2/3", "3/3")) {
            parts.addAll(ConformanceMain.Request.parse("--device", "cpu", "--only", "^Slice", "--part", part)
                    .cases());
        }
        List<Case> all = ConformanceMain.Request.parse("--device", "cpu", "--only", "^Slice")
                .cases();
        assertThat(parts)
                .hasSizeGreaterThan(3)
                .map(Case::toString)
                .containsExactlyInAnyOrderElementsOf(
                        all.stream().map(Case::toString).toList());
        assertThatThrownBy(() -> ConformanceMain.Request.parse("--device", "cpu", "--part", "4/3"))
                .hasMessage("--part: expected one of 1 to 3, got 4");
    }

    @Test
    void commandPrintsCounts() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ConformanceMain.Request request =
                ConformanceMain.Request.parse("--device", "reference", "--only", "^Slice\\(from=2, to=5\\) F32");
        boolean passed = ConformanceMain.run(request, new PrintStream(bytes, true));
        assertThat(bytes.toString()).endsWith("4 passed, 0 failed\n");
        assertThat(passed).isTrue();
    }

    @Test
    void rejectsUnknownHiddenFeatures() {
        for (String device : List.of("reference", "cpu")) {
            ConformanceMain.Request request = ConformanceMain.Request.parse("--device", device, "--hide", "sm_90");
            assertThatThrownBy(() -> ConformanceMain.run(request, new PrintStream(new ByteArrayOutputStream(), true)))
                    .isInstanceOf(DeviceException.class)
                    .hasMessageContaining("cannot hide [sm_90]; expected ");
        }
    }

    private static Case find(String name) {
        return Cases.all().stream()
                .filter(c -> c.toString().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static void scale(Device device, Tensor tensor, int element, float by) {
        if (tensor.shape().size() > element) {
            Tensor one = tensor.view(element, Shape.of(1));
            device.write(one, device.floats(one)[0] * by);
        }
    }

    private void fails(Check check, String name, String message, FaultyDevice.Fault fault) {
        assertThatThrownBy(() -> ask(check, find(name), fault))
                .isInstanceOf(ConformanceFailure.class)
                .hasMessageContaining(message);
    }

    private void ask(Check check, String name, FaultyDevice.Fault fault) {
        ask(check, find(name), fault);
    }

    private void ask(Check check, Case c, FaultyDevice.Fault fault) {
        FaultyDevice broken = new FaultyDevice(fault);
        new Conformance(broken, broken, broken, reference).run(check, c);
    }
}
