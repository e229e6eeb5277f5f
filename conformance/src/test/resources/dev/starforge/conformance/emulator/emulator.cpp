// Runs a kernel's groups one after another, and the threads of a group as fibers. A fiber goes on until its thread must
// wait; one that ends takes the next thread, so a kernel without barriers needs one stack and no switch. When nobody can
// go on and not all have ended, threads wait for others that never come.
//
// Switching is setjmp and longjmp, which save a few registers; ucontext, which calls the system, only makes a fiber.
// A fault leaves all stacks as they are and starts them anew at the next launch: nothing on them needs cleaning up.

#include <setjmp.h>
#include <stdarg.h>
#include <fenv.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

namespace emulator {

static const i64 STACK = 128 << 10;
static const i64 PAGE = 16 << 10; // or a divisor of it
static const i64 SHARED_BYTES = 256 << 10;

extern "C" Current emulator_current = {};

struct Fiber {
    jmp_buf here;
    ucontext_t start;
    bool started;
    unsigned thread;
};

// Threads that wait for each other, and where.
struct Rendezvous {
    const char* what;
    const char* file;
    int line;
    int arrived;
    Fiber* waiting[GROUP];
};

struct Simdgroup {
    Rendezvous rendezvous;
    float x[SIMD];
    wide x_wide[SIMD];
    bool says[SIMD];
    float result[SIMD];
    wide result_wide;
    unsigned ballot;
    u32 a[SIMD][4];
    u32 b[SIMD][2];
    float* c[SIMD];
    double exchanged[SIMD];
};

// Where the next shared array of a thread begins: all threads of a group declare the same ones.
struct Declared {
    i64 bytes;
    i64 elements;
};

static struct {
    Program* program;
    fenv_t environment; // of the run; that of a context is of the run that made its fiber
    Argument* arguments;
    bool reversed;
    Fiber fibers[GROUP];
    Fiber* idle[GROUP];
    int idle_count;
    Fiber* ready[GROUP];
    int ready_first;
    int ready_count;
    Fiber* running;
    int begun;
    int ended;
    Rendezvous barrier;
    Simdgroup simdgroups[SIMDGROUPS];
    Declared declared[GROUP];
    i64 shared_used;
    jmp_buf end;
    char message[1024];
    char* stacks;
    alignas(16) char shared[SHARED_BYTES];
    Shadow shadow[SHARED_BYTES / 2];
} emu;

enum { FINISHED = 1, FAULT = 2 };

// The name of parameter i, out of the text "IN(float, x), ARG(i64, n)".
static void parameter_name(int i, char* name, size_t size) {
    const char* at = emu.program->parameters;
    for (; i > 0; i--) {
        at = strchr(at, ')') + 1;
    }
    at = strchr(strchr(at, '('), ',') + 1;
    at += strspn(at, " ");
    snprintf(name, size, "%.*s", (int)strcspn(at, ")"), at);
}

[[noreturn]] static void fault(const char* format, ...) {
    int at = snprintf(emu.message, sizeof emu.message, "%s: group (%u, %u, %u), thread %u: ", emu.program->name,
                      emulator_current.group[0], emulator_current.group[1], emulator_current.group[2],
                      emulator_current.thread);
    va_list values;
    va_start(values, format);
    vsnprintf(emu.message + at, sizeof emu.message - at, format, values);
    va_end(values);
    _longjmp(emu.end, FAULT);
}

extern "C" void emulator_outside(int parameter, i64 index, i64 size) {
    char name[64];
    parameter_name(parameter, name, sizeof name);
    fault("buffer %s: index %lld is outside of its %lld elements", name, index, size);
}

extern "C" void emulator_outside_shared(const char* name, i64 index, i64 size) {
    fault("shared array %s: index %lld is outside of its %lld elements", name, index, size);
}

extern "C" void emulator_uninitialised(const char* name, i64 index) {
    fault("shared array %s: element %lld is read before anything was written to it", name, index);
}

extern "C" void emulator_race(const char* name, i64 index, const char* does, int other, const char* did) {
    char who[32];
    snprintf(who, sizeof who, other == SEVERAL ? "other threads" : "thread %d", other);
    fault("shared array %s: race: %s element %lld, which %s %s, with no barrier between", name, does, index, who, did);
}

extern "C" SharedArray emulator_shared(i64 size, i64 bytes) {
    Declared& declared = emu.declared[emulator_current.thread];
    SharedArray array = {emu.shared + declared.bytes, emu.shadow + declared.elements};
    declared.bytes += (bytes + 15) / 16 * 16;
    declared.elements += size;
    if (declared.bytes > SHARED_BYTES || declared.elements > SHARED_BYTES / 2) {
        fault("%lld bytes of shared memory are more than the emulator has", declared.bytes);
    }
    emu.shared_used = declared.bytes > emu.shared_used ? declared.bytes : emu.shared_used;
    return array;
}

static void run_threads();

[[noreturn]] static void go_to(Fiber* fiber) {
    emu.running = fiber;
    emulator_current.thread = fiber->thread;
    if (fiber->started) {
        _longjmp(fiber->here, 1);
    }
    fiber->started = true;
    setcontext(&fiber->start);
    __builtin_trap();
}

[[noreturn]] static void diverged() {
    Rendezvous* at = &emu.barrier;
    int all = GROUP;
    for (Simdgroup& simdgroup : emu.simdgroups) {
        if (simdgroup.rendezvous.arrived > 0) {
            at = &simdgroup.rendezvous;
            all = SIMD;
        }
    }
    emulator_current.thread = at->waiting[0]->thread;
    fault("divergent %s at %s:%d: %d of %d threads wait there, the others never come", at->what, at->file, at->line,
          at->arrived, all);
}

// Whoever can go on.
[[noreturn]] static void next() {
    if (emu.ready_count > 0) {
        Fiber* fiber = emu.ready[emu.ready_first];
        emu.ready_first = (emu.ready_first + 1) % GROUP;
        emu.ready_count--;
        go_to(fiber);
    }
    if (emu.begun < GROUP) {
        go_to(emu.idle[--emu.idle_count]);
    }
    if (emu.ended == GROUP) {
        _longjmp(emu.end, FINISHED);
    }
    diverged();
}

// What every fiber does: threads that have not begun, one after another. It is idle when there are none.
static void run_threads() {
    fesetenv(&emu.environment);
    for (;;) {
        while (emu.begun < GROUP) {
            unsigned thread = emu.begun++;
            thread = emu.reversed ? GROUP - 1 - thread : thread;
            emulator_current.thread = emu.running->thread = thread;
            emu.declared[thread] = {0, 0};
            emu.program->call(emu.program->body, emu.arguments);
            emu.ended++;
        }
        emu.idle[emu.idle_count++] = emu.running;
        if (!_setjmp(emu.running->here)) {
            next();
        }
    }
}

// Waits for `all` threads at one place; true for the last one, before any of the others go on.
static bool arrive(Rendezvous& at, int all, const char* what, const char* file, int line) {
    if (at.arrived > 0 && (at.line != line || strcmp(at.what, what) != 0 || strcmp(at.file, file) != 0)) {
        fault("divergent %s at %s:%d: thread %u waits at %s:%d for %s", what, file, line, at.waiting[0]->thread,
              at.file, at.line, at.what);
    }
    at.what = what;
    at.file = file;
    at.line = line;
    at.waiting[at.arrived++] = emu.running;
    return at.arrived == all;
}

static void wait() {
    if (!_setjmp(emu.running->here)) {
        next();
    }
}

// All go on: the others when it is their turn, the caller at once.
static void depart(Rendezvous& at) {
    for (int i = 0; i < at.arrived - 1; i++) {
        emu.ready[(emu.ready_first + emu.ready_count++) % GROUP] = at.waiting[i];
    }
    at.arrived = 0;
}

extern "C" void emulator_barrier(const char* file, int line) {
    if (!arrive(emu.barrier, GROUP, "BARRIER", file, line)) {
        wait();
        return;
    }
    emulator_current.epoch++;
    depart(emu.barrier);
}

static Simdgroup& simdgroup() {
    return emu.simdgroups[emulator_current.thread / SIMD];
}

// As on a GPU: at each level a lane adds what its partner has, so all get the same bits.
extern "C" float emulator_simd_sum(float x, const char* file, int line) {
    Simdgroup& group = simdgroup();
    unsigned lane = emulator_current.thread % SIMD;
    group.x[lane] = x;
    if (arrive(group.rendezvous, SIMD, "simd_sum", file, line)) {
        for (int distance = SIMD / 2; distance > 0; distance /= 2) {
            for (int i = 0; i < distance; i++) {
                group.x[i] += group.x[i + distance];
            }
        }
        for (int i = 0; i < SIMD; i++) {
            group.result[i] = group.x[0];
        }
        depart(group.rendezvous);
    } else {
        wait();
    }
    return group.result[lane];
}

extern "C" wide emulator_simd_sum_wide(wide x, const char* file, int line) {
    Simdgroup& group = simdgroup();
    group.x_wide[emulator_current.thread % SIMD] = x;
    if (arrive(group.rendezvous, SIMD, "simd_sum_wide", file, line)) {
        for (int distance = SIMD / 2; distance > 0; distance /= 2) {
            for (int i = 0; i < distance; i++) {
                group.x_wide[i] += group.x_wide[i + distance];
            }
        }
        group.result_wide = group.x_wide[0];
        depart(group.rendezvous);
    } else {
        wait();
    }
    return group.result_wide;
}

// Not symmetric in the sign of zero, so every lane computes its own.
extern "C" float emulator_simd_max(float x, const char* file, int line) {
    Simdgroup& group = simdgroup();
    unsigned lane = emulator_current.thread % SIMD;
    group.x[lane] = x;
    if (arrive(group.rendezvous, SIMD, "simd_max", file, line)) {
        for (int distance = SIMD / 2; distance > 0; distance /= 2) {
            for (int i = 0; i < SIMD; i++) {
                group.result[i] = max_nan(group.x[i], group.x[i ^ distance]);
            }
            memcpy(group.x, group.result, sizeof group.x);
        }
        depart(group.rendezvous);
    } else {
        wait();
    }
    return group.result[lane];
}

extern "C" unsigned emulator_simd_ballot(bool says, const char* file, int line) {
    Simdgroup& group = simdgroup();
    group.says[emulator_current.thread % SIMD] = says;
    if (arrive(group.rendezvous, SIMD, "simd_ballot", file, line)) {
        group.ballot = 0;
        for (int i = 0; i < SIMD; i++) {
            group.ballot |= (unsigned)group.says[i] << i;
        }
        depart(group.rendezvous);
    } else {
        wait();
    }
    return group.ballot;
}

extern "C" void emulator_simd_all(double x, double (&all)[SIMD], const char* file, int line) {
    Simdgroup& group = simdgroup();
    group.x_wide[emulator_current.thread % SIMD] = x;
    if (arrive(group.rendezvous, SIMD, "exchange", file, line)) {
        memcpy(group.exchanged, group.x_wide, sizeof group.exchanged);
        depart(group.rendezvous);
    } else {
        wait();
    }
    memcpy(all, group.exchanged, sizeof group.exchanged);
}

// The last lane to come adds up for all, sixteen terms in ascending order.
extern "C" void emulator_mma(float* c, const u32* a, u32 b0, u32 b1, float (*widened)(unsigned short), const char* file,
                             int line) {
    Simdgroup& group = simdgroup();
    unsigned lane = emulator_current.thread % SIMD;
    memcpy(group.a[lane], a, sizeof group.a[lane]);
    group.b[lane][0] = b0;
    group.b[lane][1] = b1;
    group.c[lane] = c;
    if (!arrive(group.rendezvous, SIMD, "mma", file, line)) {
        wait();
        return;
    }
    float wide_a[16][16];
    float wide_b[16][8];
    for (int i = 0; i < SIMD; i++) {
        int g = i / 4;
        int t = i % 4;
        for (int j = 0; j < 8; j++) {
            wide_a[g + j / 2 % 2 * 8][2 * t + j / 4 * 8 + j % 2] = widened(group.a[i][j / 2] >> 16 * (j % 2));
        }
        for (int j = 0; j < 4; j++) {
            wide_b[2 * t + j / 2 * 8 + j % 2][g] = widened(group.b[i][j / 2] >> 16 * (j % 2));
        }
    }
    for (int i = 0; i < SIMD; i++) {
        for (int j = 0; j < 4; j++) {
            float sum = group.c[i][j];
            for (int k = 0; k < 16; k++) {
                sum += wide_a[i / 4 + j / 2 * 8][k] * wide_b[k][2 * (i % 4) + j % 2];
            }
            group.c[i][j] = sum;
        }
    }
    depart(group.rendezvous);
}

// Fibers that have run nothing yet. The lowest page of a stack is not there, so that none grows into its neighbour.
static void make_fibers() {
    if (emu.stacks == 0) {
        emu.stacks = (char*)mmap(0, STACK * GROUP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < GROUP; i++) {
            mprotect(emu.stacks + i * STACK, PAGE, PROT_NONE);
        }
    }
    for (int i = 0; i < GROUP; i++) {
        Fiber& fiber = emu.fibers[i];
        getcontext(&fiber.start);
        fiber.start.uc_stack.ss_sp = emu.stacks + i * STACK + PAGE;
        fiber.start.uc_stack.ss_size = STACK - PAGE;
        fiber.start.uc_link = 0;
        makecontext(&fiber.start, run_threads, 0);
        fiber.started = false;
        emu.idle[i] = &fiber;
    }
    emu.idle_count = GROUP;
    emu.ready_count = 0;
    emu.barrier.arrived = 0;
    for (Simdgroup& group : emu.simdgroups) {
        group.rendezvous.arrived = 0;
    }
}

// All groups, in the reversed order if told so. Null, or what is wrong.
extern "C" const char* emulator_run(Program* program, Argument* arguments, int x, int y, int z, int reversed) {
    emu.program = program;
    fegetenv(&emu.environment);
    emu.arguments = arguments;
    emu.reversed = reversed;
    emu.shared_used = 0;
    Current& now = emulator_current;
    now.groups[0] = x;
    now.groups[1] = y;
    now.groups[2] = z;
    if (now.epoch > 0x7fffffffu) {
        memset(emu.shadow, 0, sizeof emu.shadow);
        now.epoch = 0;
    }
    if (emu.stacks == 0) {
        make_fibers();
    }
    i64 groups = (i64)x * y * z;
    for (volatile i64 i = 0; i < groups; i = i + 1) {
        i64 group = reversed ? groups - 1 - i : i;
        now.group[0] = group % x;
        now.group[1] = group / x % y;
        now.group[2] = group / x / y;
        now.first_epoch = ++now.epoch;
        emu.begun = emu.ended = 0;
        int how = _setjmp(emu.end);
        if (how == 0) {
            next();
        }
        if (how == FAULT) {
            make_fibers();
            return emu.message;
        }
    }
    return 0;
}

extern "C" i64 emulator_shared_used() {
    return emu.shared_used;
}

} // namespace emulator
