package dev.starforge.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.starforge.kernels.Launch.Argument;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class SignatureTest {
    private final Device device = Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("")));
    private final Scope scope = new Scope(device);

    @AfterEach
    void close() {
        scope.close();
        device.close();
    }

    private Argument of(DType type) {
        return new Argument.Buffer(scope.allocate(new Spec(type, Shape.of(5))));
    }

    @Test
    void parsesParametersFromSource() {
        assertEquals(
                List.of(
                        new Signature.Parameter(false, "X", "x"),
                        new Signature.Parameter(true, "Y", "y"),
                        new Signature.Parameter(false, "i64", "n")),
                Signature.of(Kernel.CAST).parameters());
    }

    /** Whatever the line breaks and the length of its list: a kernel without a buffer to write would be of no use. */
    @ParameterizedTest
    @EnumSource
    void everyKernelHasParameters(Kernel kernel) {
        String text = Variant.source(kernel.file());
        int from = text.indexOf("KERNEL(" + kernel.symbol() + ",");
        String list = text.substring(from, text.indexOf("{\n", from));
        assertEquals(
                list.split("(IN|OUT|ARG)\\(").length - 1,
                Signature.of(kernel).parameters().size());
    }

    @Test
    void typeMacrosOmitFloat32() {
        Argument n = new Argument.Long(5);
        Signature cast = Signature.of(Kernel.CAST);
        assertEquals(
                List.of(),
                cast.variant(List.of(of(DType.F32), of(DType.F32), n)).defines());
        assertEquals(
                List.of("X i32", "Y bf16"),
                cast.variant(List.of(of(DType.I32), of(DType.BF16), n)).defines());
    }

    @Test
    void rejectsDifferentTypesForOneMacro() {
        Signature affine = Signature.of(Kernel.AFFINE);
        Argument one = new Argument.Float(1);
        List<Argument> mixed = List.of(of(DType.F16), of(DType.BF16), new Argument.Long(5), one, one);
        assertEquals(
                "Affine: y is BF16, expected F16 as the other buffers of type X",
                assertThrows(DeviceException.class, () -> affine.variant(mixed)).getMessage());
    }

    @Test
    void rejectsWrongNumberOfArguments() {
        assertEquals(
                "Fill: 1 arguments for parameters [y, n, value]",
                assertThrows(
                                DeviceException.class,
                                () -> Signature.of(Kernel.FILL).variant(List.of(of(DType.F32))))
                        .getMessage());
    }
}
