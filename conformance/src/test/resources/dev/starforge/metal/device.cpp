// A stand-in for Metal, continued: the device, which makes all other objects.

namespace standin {

static Object* device_name(Object*, SEL) {
    return string("Apple M" + std::to_string(machine["family"] - 1006) + " (stand-in)");
}

static Object* architecture_name(Object*, SEL) {
    return string("applegpu_g" + std::to_string(machine["family"] - 994) + "g");
}

static Class* MTLArchitecture = define("MTLArchitecture", nullptr, {{"name", "@@:", imp(architecture_name)}});

static Object* device_architecture(Object*, SEL selector) {
    if (machine["macos"] < 14) {
        complain("newer system", "%s needs macOS 14", selector);
        return nullptr;
    }
    static Object one = {MTLArchitecture, 1};
    return &one;
}

static bool device_family(Object*, SEL, long family) {
    return family <= machine["family"];
}

static bool device_unified(Object*, SEL) {
    return true;
}

static unsigned long long device_working_set(Object*, SEL) {
    return machine["working set"];
}

static NSUInteger device_allocated(Object*, SEL) {
    return allocated;
}

static NSUInteger device_largest(Object*, SEL) {
    return machine["largest buffer"];
}

static NSUInteger device_threadgroup(Object*, SEL) {
    return machine["threadgroup memory"];
}

static Object* device_queue(Object*, SEL) {
    return make<Queue>(MTLCommandQueue);
}

static Object* device_fence(Object*, SEL) {
    return make<Fence>(MTLFence);
}

// Filled with ones, NaN in every float type, so that results show what was not written.
static Object* device_buffer(Object*, SEL, NSUInteger length, NSUInteger options) {
    if (length == 0 || length > (NSUInteger)machine["largest buffer"]) {
        complain("buffer length", "%lu", length);
        return nullptr;
    }
    if (options != 256) {
        complain("buffer options", "%lu: expected shared storage, untracked", options);
    }
    Buffer* buffer = make<Buffer>(MTLBuffer);
    buffer->length = length;
    buffer->contents =
        (char*)mmap(nullptr, pages(length), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(buffer->contents, 255, length);
    allocated += length;
    return buffer;
}

static Object* device_no_copy(Object*, SEL, void* memory, NSUInteger length, NSUInteger options, void* deallocator) {
    if ((uintptr_t)memory % sysconf(_SC_PAGESIZE) != 0 || length % PAGE != 0 || length == 0) {
        complain("no-copy alignment", "%p, %lu bytes", memory, length);
        return nullptr;
    }
    if (options != 256 || deallocator) {
        complain("buffer options", "%lu: expected shared storage, untracked, and no deallocator", options);
    }
    Buffer* buffer = make<Buffer>(MTLBuffer);
    buffer->contents = (char*)memory;
    buffer->length = length;
    buffer->mapped = true;
    allocated += length;
    return buffer;
}

static Object* device_library(Object*, SEL, String* source, Options* options, Object** error) {
    check_options(options);
    std::vector<char> log(1 << 16);
    long handle = host.compile(source->text.c_str(), log.data(), log.size());
    if (!handle) {
        return fail(error, 3, log.data());
    }
    Library* library = make<Library>(MTLLibrary);
    library->handle = handle;
    return library;
}

static Object* device_pipeline(Object*, SEL, Function* function, Object**) {
    Pipeline* pipeline = make<Pipeline>(MTLComputePipelineState);
    objc_retain(function);
    pipeline->function = function;
    return pipeline;
}

static Object* device_residency(Object*, SEL selector, Object*, Object**) {
    if (machine["macos"] < 15) {
        complain("newer system", "%s needs macOS 15", selector);
        return nullptr;
    }
    return make<ResidencySet>(MTLResidencySet);
}

static Class* MTLDevice =
    define("MTLDevice", nullptr,
           {{"name", "@@:", imp(device_name)},
            {"architecture", "@@:", imp(device_architecture)},
            {"supportsFamily:", "B@:q", imp(device_family)},
            {"hasUnifiedMemory", "B@:", imp(device_unified)},
            {"recommendedMaxWorkingSetSize", "Q@:", imp(device_working_set)},
            {"currentAllocatedSize", "Q@:", imp(device_allocated)},
            {"maxBufferLength", "Q@:", imp(device_largest)},
            {"maxThreadgroupMemoryLength", "Q@:", imp(device_threadgroup)},
            {"newCommandQueue", "@@:", imp(device_queue)},
            {"newFence", "@@:", imp(device_fence)},
            {"newResidencySetWithDescriptor:error:", "@@:@^@", imp(device_residency)},
            {"newBufferWithLength:options:", "@@:QQ", imp(device_buffer)},
            {"newBufferWithBytesNoCopy:length:options:deallocator:", "@@:^vQQ@?", imp(device_no_copy)},
            {"newLibraryWithSource:options:error:", "@@:@@^@", imp(device_library)},
            {"newComputePipelineStateWithFunction:error:", "@@:@^@", imp(device_pipeline)}});

extern "C" Object* MTLCopyAllDevices() {
    Array* array = make<Array>(NSArray);
    for (long i = 0; i < machine["devices"]; i++) {
        array->objects.push_back(make<Object>(MTLDevice));
    }
    return array;
}

} // namespace standin
