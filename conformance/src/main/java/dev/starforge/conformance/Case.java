package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/**
 * An operation with test inputs. The name of a case identifies it, and its inputs are a function of the name (Philox, keyed by its
 * hash), so a failure can be reproduced on any machine by name.
 *
 * @param op the operation
 * @param inputs its inputs
 * @param note a property of the case that neither the operation nor the shapes show; may be empty
 */
record Case(Op op, List<Input> inputs, String note) {
    public Case {
        inputs = List.copyOf(inputs);
        op.outputs(specs(inputs)); // throws if the operation does not accept the inputs
    }

    /**
     * One input.
     *
     * @param spec element type and shape
     * @param source of its elements
     * @param gradient whether its gradient is checked
     */
    record Input(Spec spec, Source source, boolean gradient) {
        Input wanted() {
            return new Input(spec, source, true);
        }

        @Override
        public String toString() {
            return spec.toString();
        }
    }

    /** The source of an input's elements. */
    sealed interface Source {
        /** Random floats; each element has its own random stream. */
        record Drawn(Draw draw) implements Source {}

        /** Given integers: ids, positions, tables. */
        record Listed(List<Integer> values) implements Source {}

        /** An output of another operation on the first inputs of this case, as a forward pass computes it. */
        record Made(Op by, int inputs, int output) implements Source {}
    }

    /** Computes the value of element {@code i} from a normally distributed random number. */
    @FunctionalInterface
    interface Draw {
        double value(int i, double normal);
    }

    Spec[] specs() {
        return specs(inputs);
    }

    private static Spec[] specs(List<Input> inputs) {
        return inputs.stream().map(Input::spec).toArray(Spec[]::new);
    }

    /** The inputs whose gradients are checked. */
    List<Integer> wanted() {
        List<Integer> wanted = new ArrayList<>();
        for (int i = 0; i < inputs.size(); i++) {
            if (inputs.get(i).gradient()) {
                wanted.add(i);
            }
        }
        return wanted;
    }

    /** The values of the inputs. {@code reference} computes those that are another operation's output. */
    HostTensor[] values(Device reference) {
        long seed = seed();
        HostTensor[] values = new HostTensor[inputs.size()];
        for (int i = 0; i < values.length; i++) {
            int site = i;
            Spec spec = inputs.get(i).spec();
            values[i] = switch (inputs.get(i).source()) {
                case Source.Drawn drawn -> HostTensor.of(spec, e -> drawn.draw().value(e, bell(seed, site, e)));
                case Source.Listed listed ->
                    HostTensor.of(spec, e -> listed.values().get(e));
                case Source.Made made ->
                    OpRunner.plain(reference, made.by(), Arrays.copyOf(values, made.inputs()))[made.output()];
            };
        }
        return values;
    }

    long seed() {
        return toString().hashCode();
    }

    /** The sum of eight uniform numbers, scaled to variance 1: approximately normal, without a logarithm per element. */
    static double bell(long seed, int site, int i) {
        double sum = 0;
        for (int word : Philox.words(i, 0, site, 0, (int) seed, (int) (seed >>> 32))) {
            sum += (word >>> 16) + (word & 0xffff);
        }
        return (sum / 0x1p16 - 4) * Math.sqrt(1.5);
    }

    /** {@code MatMul(transposeB) F32[5, 7] x BF16[13, 7]}. */
    @Override
    public String toString() {
        String name = op.name() + parameters();
        if (!inputs.isEmpty()) {
            name += " " + inputs.stream().map(Input::toString).collect(Collectors.joining(" x "));
        }
        return note.isEmpty() ? name : name + ", " + note;
    }

    private String parameters() {
        List<String> shown = new ArrayList<>();
        for (RecordComponent component : op.getClass().getRecordComponents()) {
            Object value = value(component);
            if (value instanceof Boolean flag) {
                if (flag) {
                    shown.add(component.getName());
                }
            } else if (value != DType.F32 || op instanceof Plain.Cast) { // float32 output is the default
                shown.add(component.getName() + "=" + value);
            }
        }
        return shown.isEmpty() ? "" : "(" + String.join(", ", shown) + ")";
    }

    private Object value(RecordComponent component) {
        try {
            return component.getAccessor().invoke(op);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(op.name() + ": component " + component.getName(), e);
        }
    }
}
