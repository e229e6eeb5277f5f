// A stand-in for Metal's compute path. Command buffers run when the host waits for them, in order, so that what is released, overwritten
// or read too early is noticed. Kernels are compiled and run by the test; see Host.

namespace standin {

enum { MAX_BUFFERS = 31, MAX_PENDING = 64, MAX_THREADS = 1024, COMMITTED = 2, COMPLETED = 4, FAILED = 5 };

struct Size {
    NSUInteger width, height, depth;
};

struct Range {
    NSUInteger location, length;
};

// An argument of a kernel, as the emulator takes it.
struct Argument {
    void* address;
    long long bytes;
};

// The bytes that a kernel has read and written by way of one argument; low > high if none.
struct Accessed {
    char *read_low, *read_high, *written_low, *written_high;
};

// Functions of the test.
struct Host {
    // Compiles a program; 0 and a log if it is rejected.
    long (*compile)(const char* source, char* log, long log_bytes);
    // Finds a kernel, 0 if there is none; writes its parameters as in the source.
    long (*find)(long library, const char* name, char* parameters, long bytes);
    // Runs a kernel; returns the bytes of threadgroup memory, or -1 and a fault.
    long (*run)(long kernel, Argument* arguments, long count, const Size* groups, Accessed* accessed, char* fault,
                long fault_bytes);
};
static Host host;

extern "C" void standin_host(const Host* functions) {
    host = *functions;
}

static long counted[3]; // dispatches, barriers, command buffers

extern "C" long standin_count(long what) {
    return counted[what];
}

// MTLBuffer

struct Buffer : Object {
    char* contents;
    NSUInteger length;
    bool mapped; // memory of the caller
};

static const NSUInteger PAGE = 16384;
static NSUInteger allocated;

static NSUInteger pages(NSUInteger bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static bool is_resident(Object* buffer);

static void buffer_dealloc(Object* object) {
    if (is_resident(object)) {
        complain("residency", "a buffer is released that is in a set");
    }
    Buffer* buffer = (Buffer*)object;
    allocated -= buffer->length;
    if (!buffer->mapped) {
        munmap(buffer->contents, pages(buffer->length));
    }
}

static void* buffer_contents(Buffer* buffer, SEL) {
    return buffer->contents;
}

static Class* MTLBuffer = define("MTLBuffer", buffer_dealloc, {{"contents", "^v@:", imp(buffer_contents)}});

// MTLCompileOptions

struct Options : Object {
    NSUInteger version;
    long mode = -1, functions = -1, fast = -1;
};

static void options_version(Options* options, SEL, NSUInteger version) {
    options->version = version;
}

static void options_mode(Options* options, SEL, long mode) {
    options->mode = mode;
}

static void options_functions(Options* options, SEL, long functions) {
    options->functions = functions;
}

static void options_fast(Options* options, SEL, bool fast) {
    options->fast = fast;
}

static Class* MTLCompileOptions = define("MTLCompileOptions", nullptr,
                                         {{"setLanguageVersion:", "v@:Q", imp(options_version)},
                                          {"setMathMode:", "v@:q", imp(options_mode)},
                                          {"setMathFloatingPointFunctions:", "v@:q", imp(options_functions)},
                                          {"setFastMathEnabled:", "v@:B", imp(options_fast)}});

static Object* options_new(Class*, SEL) {
    return make<Options>(MTLCompileOptions);
}

static Class* MTLCompileOptions_class = define("+MTLCompileOptions", nullptr, {{"new", "@@:", imp(options_new)}});

// MTLResidencySet

static std::set<Object*> resident;

static bool is_resident(Object* buffer) {
    return resident.count(buffer) > 0;
}

struct ResidencySet : Object {
    std::set<Object*> added;
    bool changed;
};

static void residency_dealloc(Object* object) {
    for (Object* each : ((ResidencySet*)object)->added) {
        resident.erase(each);
    }
    ((ResidencySet*)object)->added.clear();
}

static void residency_add(ResidencySet* set, SEL, Object* buffer) {
    if (!set->added.insert(buffer).second) {
        complain("residency", "a buffer is added twice");
    }
    resident.insert(buffer);
    set->changed = true;
}

static void residency_remove(ResidencySet* set, SEL, Object* buffer) {
    if (set->added.erase(buffer) == 0) {
        complain("residency", "a buffer is removed that is not in the set");
    }
    resident.erase(buffer);
    set->changed = true;
}

static void residency_commit(ResidencySet* set, SEL) {
    set->changed = false;
}

static void residency_request(ResidencySet* set, SEL) {
    if (set->changed) {
        complain("residency", "requested before its changes are committed");
    }
}

static Class* MTLResidencySet = define("MTLResidencySet", residency_dealloc,
                                       {{"addAllocation:", "v@:@", imp(residency_add)},
                                        {"removeAllocation:", "v@:@", imp(residency_remove)},
                                        {"commit", "v@:", imp(residency_commit)},
                                        {"requestResidency", "v@:", imp(residency_request)}});

static Class* MTLResidencySetDescriptor = define("MTLResidencySetDescriptor", nullptr, {});

static Object* residency_descriptor_new(Class*, SEL) {
    return make<Object>(MTLResidencySetDescriptor);
}

static Class* MTLResidencySetDescriptor_class =
    define("+MTLResidencySetDescriptor", nullptr, {{"new", "@@:", imp(residency_descriptor_new)}});


static void check_options(Options* options) {
    if (!options || options->version < 196609) {
        complain("language version", "below 3.1");
    } else if (machine["macos"] >= 15 ? options->mode != 0 || options->functions != 1 : options->fast != 0) {
        complain("fast math", "neither safe math nor precise functions were asked for");
    }
    if (options && machine["macos"] < 15 && (options->mode != -1 || options->functions != -1)) {
        complain("newer system", "math modes need macOS 15");
    }
}

// MTLLibrary, MTLFunction, MTLComputePipelineState

struct Library : Object {
    long handle;
};

// A parameter's letter: R reads a buffer, W may write it, S has four bytes, L eight, and X is a struct.
struct Function : Object {
    std::string name, kinds;
    long handle;
};

static std::string kinds(const char* parameters) {
    std::string kinds;
    for (const char* at = parameters; *at; at++) {
        if (strncmp(at, "IN(", 3) == 0) {
            kinds += 'R';
        } else if (strncmp(at, "OUT(", 4) == 0) {
            kinds += 'W';
        } else if (strncmp(at, "ARG(", 4) == 0) {
            std::string type(at + 4, strcspn(at + 4, ","));
            kinds += type == "i64" ? 'L' : type == "int" || type == "float" ? 'S' : 'X';
        }
    }
    return kinds;
}

static Class* MTLFunction = define("MTLFunction", nullptr, {});

static Object* library_function(Library* library, SEL, String* name) {
    char parameters[4096];
    long handle = host.find(library->handle, name->text.c_str(), parameters, sizeof parameters);
    if (!handle) {
        return nullptr;
    }
    Function* function = make<Function>(MTLFunction);
    function->name = name->text;
    function->kinds = kinds(parameters);
    function->handle = handle;
    return function;
}

static Class* MTLLibrary = define("MTLLibrary", nullptr, {{"newFunctionWithName:", "@@:@", imp(library_function)}});

struct Pipeline : Object {
    Function* function;
};

static void pipeline_dealloc(Object* object) {
    objc_release(((Pipeline*)object)->function);
}

static NSUInteger pipeline_threads(Pipeline*, SEL) {
    return machine["threads"];
}

static NSUInteger pipeline_width(Pipeline*, SEL) {
    return machine["simd"];
}

static NSUInteger pipeline_shared(Pipeline*, SEL) {
    return 0; // known after a run, and checked there
}

static Class* MTLComputePipelineState = define("MTLComputePipelineState", pipeline_dealloc,
                                               {{"maxTotalThreadsPerThreadgroup", "Q@:", imp(pipeline_threads)},
                                                {"threadExecutionWidth", "Q@:", imp(pipeline_width)},
                                                {"staticThreadgroupMemoryLength", "Q@:", imp(pipeline_shared)}});

// MTLFence: the last encoder of a queue up to which all are finished when it is updated.

struct Fence : Object {
    long covers;
};

static Class* MTLFence = define("MTLFence", nullptr, {});

} // namespace standin
