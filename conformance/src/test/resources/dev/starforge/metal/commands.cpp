// A stand-in for Metal, continued: command queues, buffers and encoders, and their execution.

namespace standin {

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

} // namespace standin
