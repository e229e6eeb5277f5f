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

/** Runs an operation and reads its results: the outputs, then the overwritten inputs. */
final class OpRunner {
    private OpRunner() {}

    /** Runs an operation with {@link Device#run} on newly allocated tensors. */
    static HostTensor[] plain(Device device, Op op, HostTensor... in) {
        try (Scope scope = new Scope(device)) {
            Tensor[] inputs = upload(scope, in);
            Tensor[] outputs =
                    Arrays.stream(op.outputs(specs(in))).map(scope::allocate).toArray(Tensor[]::new);
            device.run(op, inputs, outputs);
            return results(device, op, inputs, outputs);
        }
    }

    /** Runs an operation like a model, through {@link EagerOps} with this fallback. */
    static HostTensor[] eager(Device device, Fallback fallback, Op op, HostTensor... in) {
        try (Scope scope = new Scope(device)) {
            Tensor[] inputs = upload(scope, in);
            Tensor[] outputs = device.ops(scope, Precision.FLOAT32, fallback).runAll(op, inputs);
            return results(device, op, inputs, outputs);
        }
    }

    static Tensor[] upload(Scope scope, HostTensor... in) {
        Tensor[] tensors = new Tensor[in.length];
        for (int i = 0; i < in.length; i++) {
            tensors[i] = scope.allocate(in[i].spec());
            scope.device().write(tensors[i], in[i].bytes());
        }
        return tensors;
    }

    static HostTensor download(Device device, Tensor tensor) {
        HostTensor host = new HostTensor(tensor.spec());
        device.read(tensor, host.bytes());
        return host;
    }

    static Spec[] specs(HostTensor... in) {
        return Arrays.stream(in).map(HostTensor::spec).toArray(Spec[]::new);
    }

    private static HostTensor[] results(Device device, Op op, Tensor[] in, Tensor[] out) {
        List<HostTensor> results = new ArrayList<>();
        for (Tensor tensor : out) {
            results.add(download(device, tensor));
        }
        for (int i = 0; i < in.length; i++) {
            if (op.mutates(i)) {
                results.add(download(device, in[i]));
            }
        }
        return results.toArray(HostTensor[]::new);
    }
}
