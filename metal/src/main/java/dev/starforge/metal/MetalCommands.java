package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;

/** Bindings of Metal, continued: the messages to command queues, command buffers and compute command encoders. */
final class MetalCommands {
    /** MTLSize. */
    static final StructLayout SIZE = MemoryLayout.structLayout(
            JAVA_LONG.withName("width"), JAVA_LONG.withName("height"), JAVA_LONG.withName("depth"));

    /** NSRange. */
    static final StructLayout RANGE =
            MemoryLayout.structLayout(JAVA_LONG.withName("location"), JAVA_LONG.withName("length"));

    /** MTLDispatchTypeConcurrent. */
    static final long CONCURRENT = 1;

    /** MTLBarrierScopeBuffers. */
    static final long BARRIER_BUFFERS = 1;

    /** MTLCommandBufferStatusCompleted and MTLCommandBufferStatusError. */
    static final long COMPLETED = 4;

    static final long ERROR = 5;

    /** MTLCommandBufferErrorOutOfMemory. */
    static final long ERROR_OUT_OF_MEMORY = 8;

    private static final MethodHandle addResidencySet =
            ObjcRuntime.message("MTLCommandQueue", "addResidencySet:", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle commandBufferWithUnretainedReferences = ObjcRuntime.message(
            "MTLCommandQueue", "commandBufferWithUnretainedReferences", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle computeCommandEncoderWithDispatchType = ObjcRuntime.message(
            "MTLCommandBuffer", "computeCommandEncoderWithDispatchType:", FunctionDescriptor.of(ADDRESS, JAVA_LONG));
    private static final MethodHandle commit =
            ObjcRuntime.message("MTLCommandBuffer", "commit", FunctionDescriptor.ofVoid());
    private static final MethodHandle waitUntilCompleted =
            ObjcRuntime.message("MTLCommandBuffer", "waitUntilCompleted", FunctionDescriptor.ofVoid());
    private static final MethodHandle status =
            ObjcRuntime.message("MTLCommandBuffer", "status", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle error =
            ObjcRuntime.message("MTLCommandBuffer", "error", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle setComputePipelineState = ObjcRuntime.message(
            "MTLComputeCommandEncoder", "setComputePipelineState:", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle setBuffers_offsets_withRange = ObjcRuntime.message(
            "MTLComputeCommandEncoder",
            "setBuffers:offsets:withRange:",
            FunctionDescriptor.ofVoid(ADDRESS, ADDRESS, RANGE));
    private static final MethodHandle dispatchThreadgroups_threadsPerThreadgroup = ObjcRuntime.message(
            "MTLComputeCommandEncoder",
            "dispatchThreadgroups:threadsPerThreadgroup:",
            FunctionDescriptor.ofVoid(SIZE, SIZE));
    private static final MethodHandle memoryBarrierWithScope = ObjcRuntime.message(
            "MTLComputeCommandEncoder", "memoryBarrierWithScope:", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle waitForFence =
            ObjcRuntime.message("MTLComputeCommandEncoder", "waitForFence:", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle updateFence =
            ObjcRuntime.message("MTLComputeCommandEncoder", "updateFence:", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle endEncoding =
            ObjcRuntime.message("MTLComputeCommandEncoder", "endEncoding", FunctionDescriptor.ofVoid());

    private MetalCommands() {}

    // - (void)addResidencySet:(id<MTLResidencySet>)residencySet;
    static void addResidencySet(MemorySegment queue, MemorySegment set) {
        try {
            addResidencySet.invokeExact(queue, set);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences;
    static MemorySegment commandBufferWithUnretainedReferences(MemorySegment queue) {
        try {
            return (MemorySegment) commandBufferWithUnretainedReferences.invokeExact(queue);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)dispatchType;
    static MemorySegment computeCommandEncoderWithDispatchType(MemorySegment commands, long dispatchType) {
        try {
            return (MemorySegment) computeCommandEncoderWithDispatchType.invokeExact(commands, dispatchType);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)commit;
    static void commit(MemorySegment commands) {
        try {
            commit.invokeExact(commands);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)waitUntilCompleted;
    static void waitUntilCompleted(MemorySegment commands) {
        try {
            waitUntilCompleted.invokeExact(commands);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) MTLCommandBufferStatus status;
    static long status(MemorySegment commands) {
        try {
            return (long) status.invokeExact(commands);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSError *error;
    static MemorySegment error(MemorySegment commands) {
        try {
            return (MemorySegment) error.invokeExact(commands);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
    static void setComputePipelineState(MemorySegment encoder, MemorySegment pipeline) {
        try {
            setComputePipelineState.invokeExact(encoder, pipeline);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range;
    static void setBuffers_offsets_withRange(
            MemorySegment encoder, MemorySegment buffers, MemorySegment offsets, MemorySegment range) {
        try {
            setBuffers_offsets_withRange.invokeExact(encoder, buffers, offsets, range);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
    static void dispatchThreadgroups_threadsPerThreadgroup(
            MemorySegment encoder, MemorySegment groups, MemorySegment threads) {
        try {
            dispatchThreadgroups_threadsPerThreadgroup.invokeExact(encoder, groups, threads);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
    static void memoryBarrierWithScope(MemorySegment encoder, long scope) {
        try {
            memoryBarrierWithScope.invokeExact(encoder, scope);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)waitForFence:(id<MTLFence>)fence;
    static void waitForFence(MemorySegment encoder, MemorySegment fence) {
        try {
            waitForFence.invokeExact(encoder, fence);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)updateFence:(id<MTLFence>)fence;
    static void updateFence(MemorySegment encoder, MemorySegment fence) {
        try {
            updateFence.invokeExact(encoder, fence);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)endEncoding;
    static void endEncoding(MemorySegment encoder) {
        try {
            endEncoding.invokeExact(encoder);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }
}
