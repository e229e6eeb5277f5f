package dev.starforge.conformance;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Op;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The ways an operation is run and read back. Results are its outputs, then the inputs it overwrote. */
final class Runs {
    private Runs() {}

    /** As {@link Device#run} does it, on freshly allocated tensors. */
    static Host[] plain(Device device, Op op, Host... in) {
        try (Scope scope = new Scope(device)) {
            Tensor[] inputs = upload(scope, in);
            Tensor[] outputs =
                    Arrays.stream(op.outputs(specs(in))).map(scope::allocate).toArray(Tensor[]::new);
            device.run(op, inputs, outputs);
            return results(device, op, inputs, outputs);
        }
    }

    /** As a model does it: through {@link EagerOps}, with what {@code fallback} says of expansions. */
    static Host[] eager(Device device, Fallback fallback, Op op, Host... in) {
        try (Scope scope = new Scope(device)) {
            Tensor[] inputs = upload(scope, in);
            Tensor[] outputs = device.ops(scope, Precision.FLOAT32, fallback).runAll(op, inputs);
            return results(device, op, inputs, outputs);
        }
    }

    static Tensor[] upload(Scope scope, Host... in) {
        Tensor[] tensors = new Tensor[in.length];
        for (int i = 0; i < in.length; i++) {
            tensors[i] = scope.allocate(in[i].spec());
            scope.device().write(tensors[i], in[i].bytes());
        }
        return tensors;
    }

    static Host download(Device device, Tensor tensor) {
        Host host = new Host(tensor.spec());
        device.read(tensor, host.bytes());
        return host;
    }

    static Spec[] specs(Host... in) {
        return Arrays.stream(in).map(Host::spec).toArray(Spec[]::new);
    }

    private static Host[] results(Device device, Op op, Tensor[] in, Tensor[] out) {
        List<Host> results = new ArrayList<>();
        for (Tensor tensor : out) {
            results.add(download(device, tensor));
        }
        for (int i = 0; i < in.length; i++) {
            if (op.mutates(i)) {
                results.add(download(device, in[i]));
            }
        }
        return results.toArray(Host[]::new);
    }
}
