package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.kernels.Launch;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Faults of host code that Metal does not report, or only under its validation layer: each is caught by a named check. */
class PlantedHostFaultsTest {
    private static final long WORDS = 8;
    private static final long BYTES = 4 * WORDS;

    private final Arena arena = Arena.ofConfined();
    private StandIn standIn;
    private AutoreleasePool pool;
    private MemorySegment device;
    private MemorySegment queue;
    private MemorySegment fence;
    private KernelLibraries kernels;
    private MemorySegment copy;
    private ScalarBuffer scalars;
    private long count;
    private MetalMemory a;
    private MetalMemory b;
    private MetalMemory c;

    @BeforeEach
    void open() {
        standIn = StandIn.open();
        standIn.violations();
        pool = AutoreleasePool.open();
        MemorySegment all = MetalDriver.MTLCopyAllDevices();
        device = ObjcRuntime.objc_retain(Foundation.objectAtIndex(all, 0));
        ObjcRuntime.objc_release(all);
        queue = MetalDriver.newCommandQueue(device);
        fence = MetalDriver.newFence(device);
        kernels = new KernelLibraries(device, MetalChip.of(device));
        copy = kernels.memoryPipeline("u32", "CopyElements");
        scalars = ScalarBuffer.allocate(device);
        count = scalars.put(new Launch.Argument.Long(WORDS));
        a = MetalMemory.allocate(device, BYTES);
        b = MetalMemory.allocate(device, BYTES);
        c = MetalMemory.allocate(device, BYTES);
        assertThat(standIn.violations()).isEmpty();
    }

    @AfterEach
    void close() {
        a.release();
        b.release();
        c.release();
        scalars.memory().release();
        kernels.close();
        ObjcRuntime.objc_release(fence);
        ObjcRuntime.objc_release(queue);
        ObjcRuntime.objc_release(device);
        pool.close();
        standIn.violations();
        standIn.close();
        arena.close();
    }

    private MemorySegment commands() {
        return MetalCommands.commandBufferWithUnretainedReferences(queue);
    }

    private static MemorySegment encoder(MemorySegment commands) {
        return MetalCommands.computeCommandEncoderWithDispatchType(commands, MetalCommands.CONCURRENT);
    }

    private void copy(MemorySegment encoder, MetalMemory from, MetalMemory to) {
        launch(from, to, 1, Launch.GROUP).encode(encoder);
    }

    private EncodedLaunch launch(MetalMemory from, MetalMemory to, long groups, long threads) {
        return EncodedLaunch.of(
                arena,
                copy,
                new MemorySegment[] {
                    from.buffer(), to.buffer(), scalars.memory().buffer()
                },
                new long[] {0, 0, count},
                new long[] {groups, 1, 1},
                threads,
                new HazardTracker.ByteRanges(new long[0], new long[0]));
    }

    /** Runs what is encoded in one command buffer. */
    private void run(Consumer<MemorySegment> encode) {
        MemorySegment commands = commands();
        MemorySegment encoder = encoder(commands);
        encode.accept(encoder);
        MetalCommands.endEncoding(encoder);
        MetalCommands.commit(commands);
        MetalCommands.waitUntilCompleted(commands);
    }

    private void assertCaught(String check) {
        assertThat(standIn.violations()).contains(check + ": ");
    }

    @Test
    void correctCommandsAreAccepted() {
        a.contents().setAtIndex(JAVA_LONG, 0, 42);
        run(encoder -> {
            copy(encoder, a, b);
            MetalCommands.memoryBarrierWithScope(encoder, MetalCommands.BARRIER_BUFFERS);
            copy(encoder, b, c);
            MetalCommands.updateFence(encoder, fence);
        });
        run(encoder -> {
            MetalCommands.waitForFence(encoder, fence);
            copy(encoder, c, a);
        });
        assertThat(standIn.violations()).isEmpty();
        assertThat(a.contents().getAtIndex(JAVA_LONG, 0)).isEqualTo(42);
    }

    @Test
    void missingBarrier() {
        run(encoder -> {
            copy(encoder, a, b);
            copy(encoder, b, c);
        });
        assertCaught("missing barrier");
    }

    @Test
    void missingBarrierBeforeOverwriting() {
        run(encoder -> {
            copy(encoder, a, b);
            copy(encoder, c, a);
        });
        assertCaught("missing barrier");
    }

    @Test
    void missingFence() {
        run(encoder -> copy(encoder, a, b));
        run(encoder -> copy(encoder, b, c));
        assertCaught("missing fence");
    }

    @Test
    void wrongBufferIndex() {
        run(encoder -> MetalCommands.setBuffers_offsets_withRange(
                encoder, arena.allocate(ADDRESS, 2), arena.allocate(JAVA_LONG, 2), range(30, 2)));
        assertCaught("buffer index");
    }

    @Test
    void unboundArgument() {
        run(encoder -> {
            EncodedLaunch launch = launch(a, b, 1, Launch.GROUP);
            MetalCommands.setComputePipelineState(encoder, copy);
            MetalCommands.setBuffers_offsets_withRange(encoder, launch.buffers(), launch.offsets(), range(0, 2));
            MetalCommands.dispatchThreadgroups_threadsPerThreadgroup(encoder, launch.groups(), launch.threads());
        });
        assertCaught("unbound argument");
    }

    private MemorySegment range(long location, long length) {
        MemorySegment range = arena.allocate(MetalCommands.RANGE);
        range.setAtIndex(JAVA_LONG, 0, location);
        range.setAtIndex(JAVA_LONG, 1, length);
        return range;
    }

    @Test
    void offsetOutsideOfItsBuffer() {
        run(encoder -> {
            EncodedLaunch launch = launch(a, b, 1, Launch.GROUP);
            launch.offsets().setAtIndex(JAVA_LONG, 1, BYTES);
            launch.encode(encoder);
        });
        assertCaught("buffer offset");
    }

    @Test
    void misalignedScalar() {
        run(encoder -> {
            EncodedLaunch launch = launch(a, b, 1, Launch.GROUP);
            launch.offsets().setAtIndex(JAVA_LONG, 2, count + 4);
            launch.encode(encoder);
        });
        assertCaught("argument alignment");
    }

    @Test
    void bufferTooShort() {
        MetalMemory half = MetalMemory.allocate(device, BYTES / 2);
        MemorySegment commands = commands();
        MemorySegment encoder = encoder(commands);
        copy(encoder, a, half);
        MetalCommands.endEncoding(encoder);
        MetalCommands.commit(commands);
        MetalCommands.waitUntilCompleted(commands);
        assertThat(MetalCommands.status(commands)).isEqualTo(MetalCommands.ERROR);
        assertThat(Foundation.describe(MetalCommands.error(commands))).contains("outside");
        half.release();
    }

    @Test
    void wrongSizes() {
        run(encoder -> launch(a, b, 0, Launch.GROUP).encode(encoder));
        assertCaught("grid size");
        run(encoder -> launch(a, b, 1, 4096).encode(encoder));
        assertCaught("threadgroup size");
    }

    @Test
    void dispatchWithoutPipeline() {
        run(encoder -> {
            EncodedLaunch launch = launch(a, b, 1, Launch.GROUP);
            MetalCommands.dispatchThreadgroups_threadsPerThreadgroup(encoder, launch.groups(), launch.threads());
        });
        assertCaught("no pipeline");
    }

    @Test
    void bufferReleasedTooEarly() {
        MetalMemory gone = MetalMemory.allocate(device, BYTES);
        MemorySegment commands = commands();
        MemorySegment encoder = encoder(commands);
        copy(encoder, a, gone);
        MetalCommands.endEncoding(encoder);
        MetalCommands.commit(commands);
        gone.release();
        MetalCommands.waitUntilCompleted(commands);
        assertCaught("released too early");
    }

    @Test
    void releasedTwice() {
        MetalMemory twice = MetalMemory.allocate(device, BYTES);
        twice.release();
        twice.release();
        assertCaught("released too often");
    }

    @Test
    void notReleased() {
        String before = standIn.live();
        MetalMemory kept = MetalMemory.allocate(device, BYTES);
        assertThat(standIn.live()).isNotEqualTo(before).contains("MTLBuffer");
        kept.release();
        assertThat(standIn.live()).isEqualTo(before);
    }

    @Test
    void messageAfterRelease() {
        MetalMemory gone = MetalMemory.allocate(device, BYTES);
        gone.release();
        MetalDriver.contents(gone.buffer());
        assertCaught("message after release");
    }

    @Test
    void messageToNil() {
        assertThat(MetalDriver.newFunctionWithName(MemorySegment.NULL, Foundation.stringWithUTF8String("Add")))
                .isEqualTo(MemorySegment.NULL);
        assertCaught("message to nil");
    }

    @Test
    void buffersOverMemoryThatIsNotPages() {
        MemorySegment memory = arena.allocate(1 << 15, 1 << 14);
        MemorySegment none = MetalDriver.newBufferWithBytesNoCopy_length_options_deallocator(
                device, memory.asSlice(16), 1 << 14, MetalDriver.SHARED_UNTRACKED, MemorySegment.NULL);
        assertThat(none).isEqualTo(MemorySegment.NULL);
        assertCaught("no-copy alignment");
    }

    @Test
    void unknownSelector() throws Throwable {
        MemorySegment none =
                (MemorySegment) ObjcRuntime.message("MTLDevice", "newCommandQueues", FunctionDescriptor.of(ADDRESS))
                        .invokeExact(device);
        assertThat(none).isEqualTo(MemorySegment.NULL);
        assertCaught("unknown selector");
    }

    @Test
    void encoderAfterItsEnd() {
        MemorySegment commands = commands();
        MemorySegment encoder = encoder(commands);
        MetalCommands.endEncoding(encoder);
        copy(encoder, a, b);
        assertCaught("encoder has ended");
    }

    @Test
    void secondEncoder() {
        MemorySegment commands = commands();
        MemorySegment encoder = encoder(commands);
        assertThat(encoder(commands)).isEqualTo(MemorySegment.NULL);
        assertCaught("encoder state");
        MetalCommands.endEncoding(encoder);
    }

    @Test
    void commitBeforeTheEnd() {
        MemorySegment commands = commands();
        MemorySegment encoder = encoder(commands);
        MetalCommands.commit(commands);
        assertCaught("commit before the end");
        MetalCommands.endEncoding(encoder);
    }

    @Test
    void committedTwice() {
        MemorySegment commands = commands();
        MetalCommands.commit(commands);
        MetalCommands.commit(commands);
        assertCaught("committed twice");
        MetalCommands.waitUntilCompleted(commands);
    }

    @Test
    void waitBeforeCommit() {
        MetalCommands.waitUntilCompleted(commands());
        assertCaught("wait before commit");
    }

    @Test
    void poolsInTheWrongOrder() {
        AutoreleasePool outer = AutoreleasePool.open();
        AutoreleasePool inner = AutoreleasePool.open();
        outer.close();
        assertCaught("pool order");
        inner.close();
        outer.close();
    }

    @Test
    void noAutoreleasePool() throws InterruptedException {
        Thread.ofPlatform()
                .start(() -> ObjcRuntime.objc_release(Foundation.stringWithUTF8String("x")))
                .join();
        assertCaught("no autorelease pool");
    }

    @Test
    void programWithoutOptions() {
        MemorySegment none = MetalDriver.newLibraryWithSource_options_error(
                device, Foundation.stringWithUTF8String("not a program"), MemorySegment.NULL, arena.allocate(ADDRESS));
        assertThat(none).isEqualTo(MemorySegment.NULL);
        assertCaught("language version");
    }

    @Test
    void fastMath() {
        MemorySegment options = MetalDriver.new_(ObjcRuntime.objc_getClass("MTLCompileOptions"));
        MetalDriver.setLanguageVersion(options, MetalDriver.LANGUAGE_3_1);
        MetalDriver.newLibraryWithSource_options_error(
                device, Foundation.stringWithUTF8String("not a program"), options, arena.allocate(ADDRESS));
        assertCaught("fast math");
        ObjcRuntime.objc_release(options);
    }

    @Test
    void mathModesBeforeTheirSystem() {
        MemorySegment options = MetalDriver.new_(ObjcRuntime.objc_getClass("MTLCompileOptions"));
        MetalDriver.setLanguageVersion(options, MetalDriver.LANGUAGE_3_1);
        MetalDriver.setMathMode(options, MetalDriver.MATH_MODE_SAFE);
        MetalDriver.newLibraryWithSource_options_error(
                device, Foundation.stringWithUTF8String("not a program"), options, arena.allocate(ADDRESS));
        assertCaught("newer system");
        ObjcRuntime.objc_release(options);
    }
}
