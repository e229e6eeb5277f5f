package dev.starforge.bench.jmh;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Plain;
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

/** A projection with the shape of a 1B model, for one token and for a prompt, with each weight type. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class MatMulBenchmark {
    @Param({
        "F32",
        "F16",
        "BF16",
        "Q8_0",
        "INT8_128",
        "Q6_K",
        "Q5_K",
        "Q4_K",
        "Q5_0",
        "Q4_1",
        "Q4_0",
        "NF4",
        "NF4_DOUBLE",
        "GPTQ_128"
    })
    DType type;

    @Param({"1", "512"})
    int tokens;

    @Param("8192")
    int rows;

    @Param("2048")
    int columns;

    @Param("0")
    int threads;

    @Param({"true"})
    boolean int8;

    private Plain.MatMul op;
    private BenchmarkDevice bench;
    private Tensor[] in;
    private Tensor[] out;

    @Setup(Level.Trial)
    public void open() {
        bench = new BenchmarkDevice("cpu", threads);
        op = new Plain.MatMul(false, true, DType.F32, int8);
        in = new Tensor[] {bench.drawn(DType.F32, tokens, columns), bench.drawn(type, rows, columns)};
        out = bench.outputs(op, in);
    }

    @TearDown(Level.Trial)
    public void close() {
        bench.close();
    }

    @Benchmark
    public void project() {
        bench.run(op, in, out);
    }
}
