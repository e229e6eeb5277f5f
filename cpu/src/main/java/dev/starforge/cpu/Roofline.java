package dev.starforge.cpu;

import static java.nio.ByteOrder.LITTLE_ENDIAN;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.machine.BytePeak;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.tensor.device.Limits;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;

/** The roofline of this machine, memory bandwidth and throughput of floats and of bytes, measured in the same process. */
final class Roofline {
    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    private static final int W = Lanes.WIDTH;
    private static final int STREAMS = 8;
    private static final long STRETCH = 8L << 20;
    private static final int ITERATIONS = 2_000_000;
    private static final int CHAINS = 12;
    private static final int REPEATS = 12; // the first ones compile

    private Roofline() {}

    /** The best of several runs on all workers, over so much memory. */
    static Limits measure(Workers workers, MachineCode.Availability machine, long bytes) {
        workers.reserve(Scratch.STRIPS);
        long stretches = Math.max(workers.threads(), bytes / STRETCH);
        double read = 0;
        double flops = 0;
        double byteOps = 0;
        try (Arena arena = Arena.ofShared()) {
            MemorySegment memory = arena.allocate(stretches * STRETCH, 64);
            memory.fill((byte) 1);
            for (int i = 0; i < REPEATS; i++) {
                long start = System.nanoTime();
                workers.run(stretches, (chunk, s, at) -> s[at] = read(memory, chunk * STRETCH));
                read = Math.max(read, stretches * STRETCH * 1e9 / (System.nanoTime() - start));
                start = System.nanoTime();
                workers.run(workers.threads(), (chunk, s, at) -> s[at] = multiplyAdd(at));
                double done = 2.0 * CHAINS * W * ITERATIONS * workers.threads();
                flops = Math.max(flops, done * 1e9 / (System.nanoTime() - start));
                if (machine.code().isPresent()) {
                    BytePeak peak = machine.code().get().bytePeak();
                    start = System.nanoTime();
                    workers.run(workers.threads(), (chunk, s, at) -> peak.run(ITERATIONS));
                    double ops = (double) peak.operations(ITERATIONS) * workers.threads();
                    byteOps = Math.max(byteOps, ops * 1e9 / (System.nanoTime() - start));
                }
            }
        }
        return new Limits(read, flops, byteOps);
    }

    /** Eight streams, which reach more than one does. */
    private static float read(MemorySegment memory, long from) {
        long each = STRETCH / STREAMS;
        IntVector s0 = IntVector.zero(INTS);
        IntVector s1 = s0;
        IntVector s2 = s0;
        IntVector s3 = s0;
        for (long p = from; p < from + each; p += 4L * W) {
            s0 = s0.add(IntVector.fromMemorySegment(INTS, memory, p, LITTLE_ENDIAN));
            s1 = s1.add(IntVector.fromMemorySegment(INTS, memory, p + each, LITTLE_ENDIAN));
            s2 = s2.add(IntVector.fromMemorySegment(INTS, memory, p + 2 * each, LITTLE_ENDIAN));
            s3 = s3.add(IntVector.fromMemorySegment(INTS, memory, p + 3 * each, LITTLE_ENDIAN));
            s0 = s0.add(IntVector.fromMemorySegment(INTS, memory, p + 4 * each, LITTLE_ENDIAN));
            s1 = s1.add(IntVector.fromMemorySegment(INTS, memory, p + 5 * each, LITTLE_ENDIAN));
            s2 = s2.add(IntVector.fromMemorySegment(INTS, memory, p + 6 * each, LITTLE_ENDIAN));
            s3 = s3.add(IntVector.fromMemorySegment(INTS, memory, p + 7 * each, LITTLE_ENDIAN));
        }
        return s0.add(s1).add(s2).add(s3).lane(0);
    }

    private static float multiplyAdd(int seed) {
        FloatVector a = FloatVector.broadcast(FLOATS, 1 + seed * 1e-9f);
        FloatVector b = FloatVector.broadcast(FLOATS, 0.5f);
        FloatVector c0 = a;
        FloatVector c1 = a;
        FloatVector c2 = a;
        FloatVector c3 = a;
        FloatVector c4 = a;
        FloatVector c5 = a;
        FloatVector c6 = a;
        FloatVector c7 = a;
        FloatVector c8 = a;
        FloatVector c9 = a;
        FloatVector c10 = a;
        FloatVector c11 = a;
        for (int i = 0; i < ITERATIONS; i++) {
            c0 = c0.fma(b, a);
            c1 = c1.fma(b, a);
            c2 = c2.fma(b, a);
            c3 = c3.fma(b, a);
            c4 = c4.fma(b, a);
            c5 = c5.fma(b, a);
            c6 = c6.fma(b, a);
            c7 = c7.fma(b, a);
            c8 = c8.fma(b, a);
            c9 = c9.fma(b, a);
            c10 = c10.fma(b, a);
            c11 = c11.fma(b, a);
        }
        FloatVector all = c0.add(c1).add(c2).add(c3).add(c4).add(c5);
        return all.add(c6).add(c7).add(c8).add(c9).add(c10).add(c11).lane(0);
    }
}
