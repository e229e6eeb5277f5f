package dev.starforge.conformance;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.IntToDoubleFunction;

/** A tensor's elements on this side of the seam: what a case feeds a device, and what was read back from one. */
final class Host {
    private final Spec spec;
    private final ByteBuffer bytes;

    Host(Spec spec) {
        this.spec = spec;
        this.bytes = ByteBuffer.allocateDirect(Math.toIntExact(spec.bytes())).order(ByteOrder.LITTLE_ENDIAN);
    }

    static Host of(Spec spec, IntToDoubleFunction values) {
        Host host = new Host(spec);
        for (int i = 0; i < host.size(); i++) {
            host.set(i, values.applyAsDouble(i));
        }
        return host;
    }

    Spec spec() {
        return spec;
    }

    Shape shape() {
        return spec.shape();
    }

    int size() {
        return Math.toIntExact(spec.shape().size());
    }

    /** All bytes, from the first, in the order a device copies them. */
    ByteBuffer bytes() {
        return bytes.duplicate().clear().order(ByteOrder.LITTLE_ENDIAN);
    }

    double at(int i) {
        return switch (spec.dtype()) {
            case F32 -> bytes.getFloat(4 * i);
            case F16, BF16 -> spec.dtype().widen(bytes.getShort(2 * i));
            case I32 -> bytes.getInt(4 * i);
        };
    }

    void set(int i, double value) {
        switch (spec.dtype()) {
            case F32 -> bytes.putFloat(4 * i, (float) value);
            case F16, BF16 -> bytes.putShort(2 * i, spec.dtype().narrow((float) value));
            case I32 -> bytes.putInt(4 * i, (int) value);
        }
    }

    int bits(int i) {
        return spec.dtype().bytes() == 4 ? bytes.getInt(4 * i) : bytes.getShort(2 * i) & 0xffff;
    }

    void bits(int i, int bits) {
        if (spec.dtype().bytes() == 4) {
            bytes.putInt(4 * i, bits);
        } else {
            bytes.putShort(2 * i, (short) bits);
        }
    }

    double[] doubles() {
        double[] values = new double[size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = at(i);
        }
        return values;
    }

    /** {@code length} elements from {@code first}, as another tensor. */
    Host slice(int first, Spec as) {
        Host part = new Host(as);
        int width = spec.dtype().bytes();
        part.bytes().put(bytes().slice(first * width, part.bytes.capacity()));
        return part;
    }

    /** The first element whose bits differ, or -1. */
    int firstDifference(Host other) {
        for (int i = 0; i < size(); i++) {
            if (bits(i) != other.bits(i)) {
                return i;
            }
        }
        return -1;
    }
}
