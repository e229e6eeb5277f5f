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

static Object* device_residency(Object*, SEL selector, Object*, Object**) {
    if (machine["macos"] < 15) {
        complain("newer system", "%s needs macOS 15", selector);
        return nullptr;
    }
    return make<ResidencySet>(MTLResidencySet);
}

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

// Commands

struct Binding {
    Buffer* buffer;
    NSUInteger offset;
};

struct Command {
    enum { DISPATCH, BARRIER, WAIT, UPDATE } kind;
    Object* object; // a pipeline or fence
    Binding bindings[MAX_BUFFERS];
    Size groups, threads;
};

struct CommandBuffer;
struct Encoder : Object {
    CommandBuffer* commands;
    Pipeline* pipeline;
    Binding bindings[MAX_BUFFERS];
    std::vector<Command> list;
    bool ended;
};

struct Queue;
struct CommandBuffer : Object {
    Queue* queue;
    std::vector<Encoder*> encoders;
    Encoder* open;
    int status;
    Error* error;
};

// A range of bytes that a dispatch has read or written.
struct Touched {
    char *low, *high;
    bool written;
    long encoder;
    std::string kernel;
};

struct Queue : Object {
    std::deque<CommandBuffer*> pending;
    long encoders; // that have begun to run
    ResidencySet* residency;
    std::vector<Touched> touched;
};

static bool is_open(Encoder* encoder, SEL selector) {
    if (encoder->ended) {
        complain("encoder has ended", "%s", selector);
    }
    return !encoder->ended;
}

static void encoder_dealloc(Object* object) {
    Encoder* encoder = (Encoder*)object;
    if (!encoder->ended) {
        complain("encoder without end", "it is released before endEncoding");
    }
    encoder->list.clear();
}

static void encoder_pipeline(Encoder* encoder, SEL selector, Pipeline* pipeline) {
    if (is_open(encoder, selector)) {
        encoder->pipeline = pipeline;
    }
}

static void encoder_buffers(Encoder* encoder, SEL selector, Buffer** buffers, NSUInteger* offsets, Range range) {
    if (!is_open(encoder, selector)) {
        return;
    }
    if (range.length > MAX_BUFFERS || range.location > MAX_BUFFERS - range.length) {
        complain("buffer index", "%lu buffers from index %lu; there are %d", range.length, range.location, MAX_BUFFERS);
        return;
    }
    for (NSUInteger i = 0; i < range.length; i++) {
        Buffer* buffer = buffers[i];
        if (buffer && (buffer->isa != MTLBuffer || buffer->owners <= 0)) {
            complain("not a buffer", "index %lu is bound to a %s", range.location + i, buffer->isa->name);
        } else if (buffer && offsets[i] >= buffer->length) {
            complain("buffer offset", "index %lu: offset %lu of %lu bytes", range.location + i, offsets[i], buffer->length);
        } else {
            encoder->bindings[range.location + i] = {buffer, offsets[i]};
        }
    }
}

static bool is_bound(Encoder* encoder) {
    Function* function = encoder->pipeline->function;
    bool bound = true;
    for (size_t i = 0; i < function->kinds.size(); i++) {
        Binding& binding = encoder->bindings[i];
        char kind = function->kinds[i];
        NSUInteger bytes = kind == 'S' ? 4 : kind == 'L' || kind == 'X' ? 8 : 1;
        if (!binding.buffer) {
            complain("unbound argument", "%s: index %zu", function->name.c_str(), i);
            bound = false;
        } else if (binding.offset % bytes != 0 || binding.buffer->length - binding.offset < bytes) {
            complain("argument alignment", "%s: index %zu: offset %lu for %lu bytes", function->name.c_str(), i,
                     binding.offset, bytes);
            bound = false;
        }
    }
    return bound;
}

static void encoder_dispatch(Encoder* encoder, SEL selector, Size groups, Size threads) {
    if (!is_open(encoder, selector)) {
        return;
    }
    if (!encoder->pipeline) {
        complain("no pipeline", "%s", selector);
        return;
    }
    NSUInteger group = threads.width * threads.height * threads.depth;
    NSUInteger most = machine["threads"];
    if (group == 0 || group > most || threads.width > most || threads.height > most || threads.depth > most) {
        complain("threadgroup size", "%lu x %lu x %lu threads", threads.width, threads.height, threads.depth);
        return;
    }
    if (groups.width - 1 > 0x7fffffff || groups.height - 1 > 0xffff || groups.depth - 1 > 0xffff) {
        complain("grid size", "%lu x %lu x %lu groups", groups.width, groups.height, groups.depth);
        return;
    }
    if (!is_bound(encoder)) {
        return;
    }
    Command command = {Command::DISPATCH, encoder->pipeline, {}, groups, threads};
    memcpy(command.bindings, encoder->bindings, sizeof command.bindings);
    encoder->list.push_back(command);
}

static void encode(Encoder* encoder, SEL selector, decltype(Command::kind) kind, Object* object) {
    if (is_open(encoder, selector)) {
        Command command = {};
        command.kind = kind;
        command.object = object;
        encoder->list.push_back(command);
    }
}

static void encoder_barrier(Encoder* encoder, SEL selector, NSUInteger scope) {
    if (scope != 1) {
        complain("barrier scope", "%lu", scope);
    }
    encode(encoder, selector, Command::BARRIER, nullptr);
}

static void encoder_wait(Encoder* encoder, SEL selector, Fence* fence) {
    encode(encoder, selector, Command::WAIT, fence);
}

static void encoder_update(Encoder* encoder, SEL selector, Fence* fence) {
    encode(encoder, selector, Command::UPDATE, fence);
}

static void encoder_end(Encoder* encoder, SEL selector) {
    if (is_open(encoder, selector)) {
        encoder->ended = true;
        encoder->commands->open = nullptr;
    }
}

static Class* MTLComputeCommandEncoder =
    define("MTLComputeCommandEncoder", encoder_dealloc,
           {{"setComputePipelineState:", "v@:@", imp(encoder_pipeline)},
            {"setBuffers:offsets:withRange:", "v@:^@^Q{_NSRange=QQ}", imp(encoder_buffers)},
            {"dispatchThreadgroups:threadsPerThreadgroup:", "v@:{?=QQQ}{?=QQQ}", imp(encoder_dispatch)},
            {"memoryBarrierWithScope:", "v@:Q", imp(encoder_barrier)},
            {"waitForFence:", "v@:@", imp(encoder_wait)},
            {"updateFence:", "v@:@", imp(encoder_update)},
            {"endEncoding", "v@:", imp(encoder_end)}});

// Execution

static void touch(Queue* queue, const Touched& now) {
    for (Touched& before : queue->touched) {
        if ((now.written || before.written) && now.low < before.high && before.low < now.high) {
            bool same = now.encoder == before.encoder;
            complain(same ? "missing barrier" : "missing fence", "%s %s what %s has %s", now.kernel.c_str(),
                     now.written ? "writes" : "reads", before.kernel.c_str(), before.written ? "written" : "read");
            return;
        }
    }
}

// The ranges of one dispatch are compared with those before it, then added.
static void track(Queue* queue, Function* function, long encoder, Accessed* accessed) {
    std::vector<Touched> ranges;
    for (size_t i = 0; i < function->kinds.size(); i++) {
        Accessed& a = accessed[i];
        if (a.read_low < a.read_high) {
            ranges.push_back({a.read_low, a.read_high, false, encoder, function->name});
        }
        if (a.written_low < a.written_high) {
            ranges.push_back({a.written_low, a.written_high, true, encoder, function->name});
            if (function->kinds[i] != 'W') {
                complain("writes an input", "%s: argument %zu", function->name.c_str(), i);
            }
        }
    }
    for (Touched& each : ranges) {
        touch(queue, each);
    }
    queue->touched.insert(queue->touched.end(), ranges.begin(), ranges.end());
}

// Returns false if the kernel failed.
static bool dispatch(Queue* queue, CommandBuffer* commands, Command& command, long encoder) {
    Pipeline* pipeline = (Pipeline*)command.object;
    if (pipeline->owners <= 0) {
        complain("released too early", "a pipeline of a command buffer that has not run");
        return true;
    }
    Function* function = pipeline->function;
    Argument arguments[MAX_BUFFERS + 1] = {};
    Accessed accessed[MAX_BUFFERS + 1] = {};
    for (size_t i = 0; i < function->kinds.size(); i++) {
        Binding& binding = command.bindings[i];
        if (binding.buffer->owners <= 0) {
            complain("released too early", "%s: the buffer at index %zu of a command buffer that has not run",
                     function->name.c_str(), i);
            return true;
        }
        arguments[i] = {binding.buffer->contents + binding.offset, (long long)(binding.buffer->length - binding.offset)};
    }
    char fault[2048] = "";
    long shared = host.run(function->handle, arguments, function->kinds.size(), &command.groups, accessed, fault,
                           sizeof fault);
    counted[0]++;
    if (shared < 0) {
        commands->error = error(3, fault);
        return false;
    }
    if (shared > machine["threadgroup memory"]) {
        complain("threadgroup memory", "%s: %ld bytes", function->name.c_str(), shared);
    }
    track(queue, function, encoder, accessed);
    return true;
}

static bool run(Queue* queue, CommandBuffer* commands, Encoder* encoder) {
    long number = ++queue->encoders;
    long covered = 0;
    for (Command& command : encoder->list) {
        switch (command.kind) {
        case Command::DISPATCH:
            if (!dispatch(queue, commands, command, number)) {
                return false;
            }
            break;
        case Command::BARRIER: {
            counted[1]++;
            std::vector<Touched> others;
            for (Touched& each : queue->touched) {
                if (each.encoder != number) {
                    others.push_back(each);
                }
            }
            queue->touched.swap(others);
            break;
        }
        case Command::WAIT:
            covered = ((Fence*)command.object)->covers;
            if (covered == number - 1) {
                queue->touched.clear();
            }
            break;
        case Command::UPDATE:
            ((Fence*)command.object)->covers = covered == number - 1 ? number : covered;
            break;
        }
    }
    return true;
}

static void run(CommandBuffer* commands) {
    counted[2]++;
    if (machine["fails with"] != 0) {
        commands->error = error(machine["fails with"], "a test makes it fail");
        machine["fails with"] = 0;
    }
    for (size_t i = 0; i < commands->encoders.size() && !commands->error; i++) {
        run(commands->queue, commands, commands->encoders[i]);
    }
    commands->status = commands->error ? FAILED : COMPLETED;
    for (Encoder* encoder : commands->encoders) {
        objc_release(encoder);
    }
    commands->encoders.clear();
}

static void run_oldest(Queue* queue) {
    CommandBuffer* oldest = queue->pending.front();
    queue->pending.pop_front();
    run(oldest);
    objc_release(oldest);
}

// MTLCommandBuffer

static void commands_dealloc(Object* object) {
    CommandBuffer* commands = (CommandBuffer*)object;
    for (Encoder* encoder : commands->encoders) {
        objc_release(encoder);
    }
    commands->encoders.clear();
    if (commands->error) {
        objc_release(commands->error);
    }
}

static Object* commands_encoder(CommandBuffer* commands, SEL, NSUInteger type) {
    if (commands->open || commands->status != 0 || type > 1) {
        complain("encoder state", commands->open ? "an encoder is open" : "the buffer was committed, or type %lu", type);
        return nullptr;
    }
    Encoder* encoder = make<Encoder>(MTLComputeCommandEncoder);
    encoder->commands = commands;
    commands->open = encoder;
    commands->encoders.push_back(encoder);
    objc_retain(encoder);
    return autoreleased(encoder);
}

static void commands_commit(CommandBuffer* commands, SEL) {
    if (commands->open) {
        complain("commit before the end", "an encoder is open");
    } else if (commands->status != 0) {
        complain("committed twice", "status %d", commands->status);
    } else {
        if (commands->queue->residency && commands->queue->residency->changed) {
            complain("residency", "changes of the set are not committed");
        }
        commands->status = COMMITTED;
        objc_retain(commands);
        commands->queue->pending.push_back(commands);
    }
}

static void commands_wait(CommandBuffer* commands, SEL) {
    if (commands->status == 0) {
        complain("wait before commit", "it would never end");
    }
    while (commands->status == COMMITTED) {
        run_oldest(commands->queue);
    }
}

static NSUInteger commands_status(CommandBuffer* commands, SEL) {
    return commands->status;
}

static Object* commands_error(CommandBuffer* commands, SEL) {
    return commands->error ? autoreleased(objc_retain(commands->error)) : nullptr;
}

static Class* MTLCommandBuffer =
    define("MTLCommandBuffer", commands_dealloc,
           {{"computeCommandEncoderWithDispatchType:", "@@:Q", imp(commands_encoder)},
            {"commit", "v@:", imp(commands_commit)},
            {"waitUntilCompleted", "v@:", imp(commands_wait)},
            {"status", "Q@:", imp(commands_status)},
            {"error", "@@:", imp(commands_error)}});

// MTLCommandQueue

static void queue_dealloc(Object* object) {
    Queue* queue = (Queue*)object;
    while (!queue->pending.empty()) {
        run_oldest(queue);
    }
    queue->touched.clear();
}

static Object* queue_commands(Queue* queue, SEL) {
    if (queue->pending.size() >= MAX_PENDING) {
        run_oldest(queue);
    }
    CommandBuffer* commands = make<CommandBuffer>(MTLCommandBuffer);
    commands->queue = queue;
    return autoreleased(commands);
}

static void queue_residency(Queue* queue, SEL, ResidencySet* set) {
    queue->residency = set;
}

static Class* MTLCommandQueue = define("MTLCommandQueue", queue_dealloc,
                                       {{"commandBufferWithUnretainedReferences", "@@:", imp(queue_commands)},
                                        {"addResidencySet:", "v@:@", imp(queue_residency)}});

// MTLDevice

static Object* device_name(Object*, SEL) {
    return string("Apple M" + std::to_string(machine["family"] - 1006) + " (stand-in)");
}

static Object* architecture_name(Object*, SEL) {
    return string("applegpu_g" + std::to_string(machine["family"] - 994) + "g");
}

static Class* MTLArchitecture = define("MTLArchitecture", nullptr, {{"name", "@@:", imp(architecture_name)}});

static Object* device_architecture(Object*, SEL) {
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
