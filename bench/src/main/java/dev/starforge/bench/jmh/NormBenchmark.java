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

/** Norms of one row and of the rows of a prompt. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class NormBenchmark {
    @Param({"1", "512"})
    int tokens;

    @Param("2048")
    int columns;

    @Param("0")
    int threads;

    private final Fused.RmsNorm rms = new Fused.RmsNorm(1e-5f);
    private final Fused.LayerNorm layer = new Fused.LayerNorm(1e-5f);
    private BenchmarkDevice bench;
    private Tensor[] forRms;
    private Tensor[] forLayer;
    private Tensor[] ofRms;
    private Tensor[] ofLayer;

    @Setup(Level.Trial)
    public void open() {
        bench = new BenchmarkDevice("cpu", threads);
        Tensor x = bench.drawn(DType.F32, tokens, columns);
        Tensor gain = bench.drawn(DType.F32, columns);
        forRms = new Tensor[] {x, gain};
        forLayer = new Tensor[] {x, gain, bench.drawn(DType.F32, columns)};
        ofRms = bench.outputs(rms, forRms);
        ofLayer = bench.outputs(layer, forLayer);
    }

    @TearDown(Level.Trial)
    public void close() {
        bench.close();
    }

    @Benchmark
    public void rmsNorm() {
        bench.run(rms, forRms, ofRms);
    }

    @Benchmark
    public void layerNorm() {
        bench.run(layer, forLayer, ofLayer);
    }
}
