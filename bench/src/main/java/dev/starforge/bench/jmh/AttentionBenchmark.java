package dev.starforge.bench.jmh;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fused;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** Attention of one sequence in a 1B model: decode after a long prompt, and prefill. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class AttentionBenchmark {
    private static final int HEADS = 32;
    private static final int KV_HEADS = 8;
    private static final int HEAD_DIM = 64;
    private static final int BLOCK = 16;

    @Param({"1", "512"})
    int queries;

    @Param({"0", "4096"})
    int cached;

    @Param({"F32", "F16"})
    DType kv;

    @Param("0")
    int threads;

    private final Fused.Attention op = new Fused.Attention(0.125f, 0, BLOCK);
    private BenchmarkDevice bench;
    private Tensor[] in;
    private Tensor[] out;

    @Setup(Level.Trial)
    public void open() {
        bench = new BenchmarkDevice("cpu", threads);
        int blocks = (queries + cached + BLOCK - 1) / BLOCK;
        int[] positions = new int[queries];
        for (int i = 0; i < queries; i++) {
            positions[i] = cached + i;
        }
        int[] table = new int[blocks];
        for (int i = 0; i < blocks; i++) {
            table[i] = i;
        }
        in = new Tensor[] {
            bench.drawn(DType.F32, queries, HEADS, HEAD_DIM),
            bench.drawn(kv, (long) blocks * BLOCK, KV_HEADS, HEAD_DIM),
            bench.drawn(kv, (long) blocks * BLOCK, KV_HEADS, HEAD_DIM),
            bench.ints(new long[] {2}, 0, queries),
            bench.ints(new long[] {queries}, positions),
            bench.ints(new long[] {1, blocks}, table)
        };
        out = bench.outputs(op, in);
    }

    @TearDown(Level.Trial)
    public void close() {
        bench.close();
    }

    @Benchmark
    public void attend() {
        bench.run(op, in, out);
    }
}
