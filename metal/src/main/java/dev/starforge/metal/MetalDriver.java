package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;

/**
 * Bindings of Metal: its one C function and the messages to devices and what they make. Methods have the names of the selectors, with
 * _ in the place of inner colons. {@code new} returns an object that the caller owns; all other objects are autoreleased.
 */
final class MetalDriver {
    /** MTLGPUFamily. */
    static final long FAMILY_APPLE7 = 1007;

    /** MTLResourceOptions: MTLResourceStorageModeShared and MTLResourceHazardTrackingModeUntracked. */
    static final long SHARED_UNTRACKED = 256;

    /** MTLLanguageVersion3_1. */
    static final long LANGUAGE_3_1 = 196_609;

    /** MTLMathMode and MTLMathFloatingPointFunctions. */
    static final long MATH_MODE_SAFE = 0;

    static final long FUNCTIONS_PRECISE = 1;

    private static final SymbolLookup LIBRARY =
            ObjcRuntime.library(MetalLibraries.current().metal());

    static {
        ObjcRuntime.library(MetalLibraries.current().coreGraphics());
    }

    private static final MethodHandle MTLCopyAllDevices =
            ObjcRuntime.handle(LIBRARY, "MTLCopyAllDevices", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle name = ObjcRuntime.message("MTLDevice", "name", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle architecture =
            ObjcRuntime.message("MTLDevice", "architecture", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle supportsFamily =
            ObjcRuntime.message("MTLDevice", "supportsFamily:", FunctionDescriptor.of(JAVA_BOOLEAN, JAVA_LONG));
    private static final MethodHandle hasUnifiedMemory =
            ObjcRuntime.message("MTLDevice", "hasUnifiedMemory", FunctionDescriptor.of(JAVA_BOOLEAN));
    private static final MethodHandle recommendedMaxWorkingSetSize =
            ObjcRuntime.message("MTLDevice", "recommendedMaxWorkingSetSize", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle currentAllocatedSize =
            ObjcRuntime.message("MTLDevice", "currentAllocatedSize", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle maxBufferLength =
            ObjcRuntime.message("MTLDevice", "maxBufferLength", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle maxThreadgroupMemoryLength =
            ObjcRuntime.message("MTLDevice", "maxThreadgroupMemoryLength", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle newCommandQueue =
            ObjcRuntime.message("MTLDevice", "newCommandQueue", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle newFence =
            ObjcRuntime.message("MTLDevice", "newFence", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle newBufferWithLength_options = ObjcRuntime.message(
            "MTLDevice", "newBufferWithLength:options:", FunctionDescriptor.of(ADDRESS, JAVA_LONG, JAVA_LONG));
    private static final MethodHandle newBufferWithBytesNoCopy_length_options_deallocator = ObjcRuntime.message(
            "MTLDevice",
            "newBufferWithBytesNoCopy:length:options:deallocator:",
            FunctionDescriptor.of(ADDRESS, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS));
    private static final MethodHandle newResidencySetWithDescriptor_error = ObjcRuntime.message(
            "MTLDevice", "newResidencySetWithDescriptor:error:", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS));
    private static final MethodHandle newLibraryWithSource_options_error = ObjcRuntime.message(
            "MTLDevice",
            "newLibraryWithSource:options:error:",
            FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, ADDRESS));
    private static final MethodHandle newComputePipelineStateWithFunction_error = ObjcRuntime.message(
            "MTLDevice",
            "newComputePipelineStateWithFunction:error:",
            FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS));
    private static final MethodHandle contents =
            ObjcRuntime.message("MTLBuffer", "contents", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle new_ = ObjcRuntime.message("+NSObject", "new", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle setLanguageVersion =
            ObjcRuntime.message("MTLCompileOptions", "setLanguageVersion:", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle setMathMode =
            ObjcRuntime.message("MTLCompileOptions", "setMathMode:", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle setMathFloatingPointFunctions = ObjcRuntime.message(
            "MTLCompileOptions", "setMathFloatingPointFunctions:", FunctionDescriptor.ofVoid(JAVA_LONG));
    private static final MethodHandle setFastMathEnabled =
            ObjcRuntime.message("MTLCompileOptions", "setFastMathEnabled:", FunctionDescriptor.ofVoid(JAVA_BOOLEAN));
    private static final MethodHandle addAllocation =
            ObjcRuntime.message("MTLResidencySet", "addAllocation:", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle removeAllocation =
            ObjcRuntime.message("MTLResidencySet", "removeAllocation:", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle requestResidency =
            ObjcRuntime.message("MTLResidencySet", "requestResidency", FunctionDescriptor.ofVoid());
    private static final MethodHandle newFunctionWithName =
            ObjcRuntime.message("MTLLibrary", "newFunctionWithName:", FunctionDescriptor.of(ADDRESS, ADDRESS));
    private static final MethodHandle maxTotalThreadsPerThreadgroup = ObjcRuntime.message(
            "MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle threadExecutionWidth =
            ObjcRuntime.message("MTLComputePipelineState", "threadExecutionWidth", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle staticThreadgroupMemoryLength = ObjcRuntime.message(
            "MTLComputePipelineState", "staticThreadgroupMemoryLength", FunctionDescriptor.of(JAVA_LONG));

    private MetalDriver() {}

    // NSArray<id<MTLDevice>> *MTLCopyAllDevices(void);
    static MemorySegment MTLCopyAllDevices() {
        try {
            return ObjcRuntime.required((MemorySegment) MTLCopyAllDevices.invokeExact(), "MTLCopyAllDevices");
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSString *name;
    static MemorySegment name(MemorySegment device) {
        try {
            return (MemorySegment) name.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) MTLArchitecture *architecture;
    static MemorySegment architecture(MemorySegment device) {
        try {
            return (MemorySegment) architecture.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (BOOL)supportsFamily:(MTLGPUFamily)gpuFamily;
    static boolean supportsFamily(MemorySegment device, long family) {
        try {
            return (boolean) supportsFamily.invokeExact(device, family);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) BOOL hasUnifiedMemory;
    static boolean hasUnifiedMemory(MemorySegment device) {
        try {
            return (boolean) hasUnifiedMemory.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) uint64_t recommendedMaxWorkingSetSize;
    static long recommendedMaxWorkingSetSize(MemorySegment device) {
        try {
            return (long) recommendedMaxWorkingSetSize.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSUInteger currentAllocatedSize;
    static long currentAllocatedSize(MemorySegment device) {
        try {
            return (long) currentAllocatedSize.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSUInteger maxBufferLength;
    static long maxBufferLength(MemorySegment device) {
        try {
            return (long) maxBufferLength.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSUInteger maxThreadgroupMemoryLength;
    static long maxThreadgroupMemoryLength(MemorySegment device) {
        try {
            return (long) maxThreadgroupMemoryLength.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLCommandQueue>)newCommandQueue;
    static MemorySegment newCommandQueue(MemorySegment device) {
        try {
            return (MemorySegment) newCommandQueue.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLFence>)newFence;
    static MemorySegment newFence(MemorySegment device) {
        try {
            return (MemorySegment) newFence.invokeExact(device);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
    static MemorySegment newBufferWithLength_options(MemorySegment device, long length, long options) {
        try {
            return (MemorySegment) newBufferWithLength_options.invokeExact(device, length, options);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLBuffer>)newBufferWithBytesNoCopy:(void *)pointer length:(NSUInteger)length
    // options:(MTLResourceOptions)options deallocator:(void (^)(void *pointer, NSUInteger length))deallocator;
    static MemorySegment newBufferWithBytesNoCopy_length_options_deallocator(
            MemorySegment device, MemorySegment bytes, long length, long options, MemorySegment deallocator) {
        try {
            return (MemorySegment) newBufferWithBytesNoCopy_length_options_deallocator.invokeExact(
                    device, bytes, length, options, deallocator);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor *)desc error:(NSError **)error;
    static MemorySegment newResidencySetWithDescriptor_error(
            MemorySegment device, MemorySegment descriptor, MemorySegment error) {
        try {
            return (MemorySegment) newResidencySetWithDescriptor_error.invokeExact(device, descriptor, error);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError
    // **)error;
    static MemorySegment newLibraryWithSource_options_error(
            MemorySegment device, MemorySegment source, MemorySegment options, MemorySegment error) {
        try {
            return (MemorySegment) newLibraryWithSource_options_error.invokeExact(device, source, options, error);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError
    // **)error;
    static MemorySegment newComputePipelineStateWithFunction_error(
            MemorySegment device, MemorySegment function, MemorySegment error) {
        try {
            return (MemorySegment) newComputePipelineStateWithFunction_error.invokeExact(device, function, error);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void *)contents;
    static MemorySegment contents(MemorySegment buffer) {
        try {
            return (MemorySegment) contents.invokeExact(buffer);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // + (instancetype)new;
    static MemorySegment new_(MemorySegment type) {
        try {
            return (MemorySegment) new_.invokeExact(type);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readwrite) MTLLanguageVersion languageVersion;
    static void setLanguageVersion(MemorySegment options, long version) {
        try {
            setLanguageVersion.invokeExact(options, version);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readwrite) MTLMathMode mathMode;
    static void setMathMode(MemorySegment options, long mode) {
        try {
            setMathMode.invokeExact(options, mode);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readwrite) MTLMathFloatingPointFunctions mathFloatingPointFunctions;
    static void setMathFloatingPointFunctions(MemorySegment options, long functions) {
        try {
            setMathFloatingPointFunctions.invokeExact(options, functions);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readwrite) BOOL fastMathEnabled;
    static void setFastMathEnabled(MemorySegment options, boolean enabled) {
        try {
            setFastMathEnabled.invokeExact(options, enabled);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)addAllocation:(id<MTLAllocation>)allocation;
    static void addAllocation(MemorySegment set, MemorySegment allocation) {
        try {
            addAllocation.invokeExact(set, allocation);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)removeAllocation:(id<MTLAllocation>)anAllocation;
    static void removeAllocation(MemorySegment set, MemorySegment allocation) {
        try {
            removeAllocation.invokeExact(set, allocation);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (void)requestResidency;
    static void requestResidency(MemorySegment set) {
        try {
            requestResidency.invokeExact(set);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (id<MTLFunction>)newFunctionWithName:(NSString *)functionName;
    static MemorySegment newFunctionWithName(MemorySegment library, MemorySegment name) {
        try {
            return (MemorySegment) newFunctionWithName.invokeExact(library, name);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
    static long maxTotalThreadsPerThreadgroup(MemorySegment pipeline) {
        try {
            return (long) maxTotalThreadsPerThreadgroup.invokeExact(pipeline);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSUInteger threadExecutionWidth;
    static long threadExecutionWidth(MemorySegment pipeline) {
        try {
            return (long) threadExecutionWidth.invokeExact(pipeline);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSUInteger staticThreadgroupMemoryLength;
    static long staticThreadgroupMemoryLength(MemorySegment pipeline) {
        try {
            return (long) staticThreadgroupMemoryLength.invokeExact(pipeline);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }
}
