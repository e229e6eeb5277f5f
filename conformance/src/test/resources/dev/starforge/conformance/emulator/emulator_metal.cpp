// The emulator's functions for kernels in the Metal Shading Language, after emulator.cpp: clang calls __tsan_* before every load and
// store. Loads of constants and of registers are not reported, so every address is in an argument or in a shared array.

#if defined(__aarch64__)
static unsigned long long flush_subnormals(bool flush) {
    unsigned long long before;
    asm volatile("mrs %0, fpcr" : "=r"(before));
    asm volatile("msr fpcr, %0" ::"r"(flush ? before | 1ull << 24 : before));
    return before;
}

static void restore_subnormals(unsigned long long before) {
    asm volatile("msr fpcr, %0" ::"r"(before));
}
#else
static unsigned long long flush_subnormals(bool flush) {
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(flush ? before | 0x8040 : before);
    return before;
}

static void restore_subnormals(unsigned long long before) {
    __builtin_ia32_ldmxcsr((unsigned)before);
}
#endif

namespace emulator {

struct Array {
    char* begin;
    i64 bytes;
    const char* name;
    Shadow* shadow;
};

enum { MAX_ARRAYS = 16 };

// The bytes that a kernel has read and written by way of one argument; low >= high if none.
struct Accessed {
    char *read_low, *read_high, *written_low, *written_high;
};

static struct {
    Array arrays[MAX_ARRAYS];
    int array_count;
    int argument_count;
    int last_argument; // the one that was accessed last: accesses come in runs
    const void* sites[SIMDGROUPS]; // the call of a simdgroup function that its lanes wait in
    unsigned exchanged[SIMDGROUPS][SIMD];
    unsigned received[SIMDGROUPS][SIMD];
    Accessed* accessed; // null, or where accesses of arguments are reported
} metal;

// All threads declare the same arrays in the same order. A shadow element covers two bytes.
extern "C" void emulator_declare(char* begin, i64 bytes, const char* name) {
    Declared& declared = emu.declared[emulator_current.thread];
    int i = 0;
    while (i < metal.array_count && metal.arrays[i].begin != begin) {
        i++;
    }
    if (i == MAX_ARRAYS || declared.bytes + bytes > SHARED_BYTES) {
        fault("%lld bytes of shared memory are more than the emulator has", declared.bytes + bytes);
    }
    if (i == metal.array_count) {
        metal.arrays[metal.array_count++] = {begin, bytes, name, emu.shadow + declared.elements};
    }
    declared.bytes += (bytes + 15) / 16 * 16;
    declared.elements += (bytes + 1) / 2;
    emu.shared_used = declared.bytes > emu.shared_used ? declared.bytes : emu.shared_used;
}

// Kernels inline all functions, so the return address tells one call of a simdgroup function from another.
static void require_site(const char* what, const void* site) {
    unsigned own = emulator_current.thread / SIMD;
    Rendezvous& at = emu.simdgroups[own].rendezvous;
    if (at.arrived > 0 && metal.sites[own] != site) {
        fault("divergent %s: thread %u waits at another call for %s", what, at.waiting[0]->thread, at.what);
    }
    metal.sites[own] = site;
}

extern "C" float emulator_metal_simd_sum(float x) {
    require_site("simd_sum", __builtin_return_address(0));
    return emulator_simd_sum(x, "the kernel", 0);
}

extern "C" float emulator_metal_simd_max(float x) {
    require_site("simd_max", __builtin_return_address(0));
    return emulator_simd_max(x, "the kernel", 0);
}

extern "C" unsigned emulator_metal_simd_ballot(bool predicate) {
    require_site("simd_ballot", __builtin_return_address(0));
    return emulator_simd_ballot(predicate, "the kernel", 0);
}

extern "C" unsigned emulator_metal_exchange(unsigned x, unsigned lane) {
    require_site("simd_shuffle", __builtin_return_address(0));
    unsigned own = emulator_current.thread / SIMD;
    metal.exchanged[own][emulator_current.thread % SIMD] = x;
    if (arrive(simdgroup().rendezvous, SIMD, "simd_shuffle", "the kernel", 0)) {
        memcpy(metal.received[own], metal.exchanged[own], sizeof metal.received[own]);
        depart(simdgroup().rendezvous);
    } else {
        wait();
    }
    return metal.received[own][lane % SIMD];
}

// Every kernel parameter is a pointer, so one call fits all kernels.
extern "C" void emulator_metal_call(void (*body)(), Argument* a) {
    typedef void* p;
    ((void (*)(p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p))body)(
        a[0].address, a[1].address, a[2].address, a[3].address, a[4].address, a[5].address, a[6].address, a[7].address,
        a[8].address, a[9].address, a[10].address, a[11].address, a[12].address, a[13].address, a[14].address,
        a[15].address, a[16].address, a[17].address, a[18].address, a[19].address, a[20].address, a[21].address,
        a[22].address, a[23].address, a[24].address, a[25].address, a[26].address, a[27].address, a[28].address,
        a[29].address, a[30].address);
}

// As emulator_run, for a kernel with `count` arguments; with `flush`, subnormals are zero as on an Apple GPU.
extern "C" const char* emulator_metal_run(Program* program, Argument* arguments, int count, int x, int y, int z, int reversed,
                                          int flush) {
    metal.array_count = 0;
    metal.argument_count = count;
    unsigned long long before = flush_subnormals(flush);
    const char* message = emulator_run(program, arguments, x, y, z, reversed);
    restore_subnormals(before);
    return message;
}

static void watch_shared(const Array& array, i64 at, int bytes, bool write) {
    if (at + bytes > array.bytes) {
        emulator_outside_shared(array.name, at / bytes, array.bytes / bytes);
    }
    short me = (short)emulator_current.thread;
    unsigned now = emulator_current.epoch;
    for (i64 i = at / 2; i <= (at + bytes - 1) / 2; i++) {
        Shadow* shadow = array.shadow + i;
        if (!write && shadow->written < emulator_current.first_epoch) {
            emulator_uninitialised(array.name, at / bytes);
        }
        if (shadow->written == now && shadow->writer != me) {
            emulator_race(array.name, at / bytes, write ? "writes" : "reads", shadow->writer, "wrote");
        }
        if (write && shadow->read == now && shadow->reader != me) {
            emulator_race(array.name, at / bytes, "writes", shadow->reader, "read");
        }
        if (write) {
            shadow->writer = me;
            shadow->written = now;
        } else {
            shadow->reader = shadow->read == now && shadow->reader != me ? (short)SEVERAL : me;
            shadow->read = now;
        }
    }
}

static i64 distance(const Argument& argument, const char* at) {
    i64 before = (char*)argument.address - at;
    i64 behind = at - (char*)argument.address - argument.bytes;
    return before > behind ? before : behind;
}

// An address outside of everything belongs to the nearest buffer or shared array.
[[noreturn]] static void outside(const char* at, int bytes) {
    int nearest = 0;
    for (int i = 1; i < metal.argument_count; i++) {
        nearest = distance(emu.arguments[i], at) < distance(emu.arguments[nearest], at) ? i : nearest;
    }
    for (int i = 0; i < metal.array_count; i++) {
        const Array& array = metal.arrays[i];
        i64 from = at - array.begin;
        if (from > -(1 << 16) && from < array.bytes + (1 << 16)) {
            emulator_outside_shared(array.name, from / bytes, array.bytes / bytes);
        }
    }
    i64 from = at - (char*)emu.arguments[nearest].address;
    emulator_outside(nearest, from < 0 ? (from - bytes + 1) / bytes : from / bytes, emu.arguments[nearest].bytes / bytes);
}

// Reports accesses to `to`, an entry for each argument, or stops.
extern "C" void emulator_metal_report(Accessed* to) {
    metal.accessed = to;
}

// Arguments may be parts of one buffer: an access belongs to the last argument that begins before it.
static void report(char* at, int bytes, bool write) {
    int owner = -1;
    for (int i = 0; i < metal.argument_count; i++) {
        char* begin = (char*)emu.arguments[i].address;
        if (begin <= at && (owner < 0 || begin >= (char*)emu.arguments[owner].address)) {
            owner = i;
        }
    }
    Accessed& accessed = metal.accessed[owner];
    char*& low = write ? accessed.written_low : accessed.read_low;
    char*& high = write ? accessed.written_high : accessed.read_high;
    if (high == 0) {
        low = at;
    }
    low = at < low ? at : low;
    high = at + bytes > high ? at + bytes : high;
}

static inline bool contains(const Argument& argument, char* at, int bytes) {
    i64 from = at - (char*)argument.address;
    return (unsigned long long)from < (unsigned long long)argument.bytes && from + bytes <= argument.bytes;
}

static inline int argument_of(char* at, int bytes) {
    int last = metal.last_argument;
    if (last < metal.argument_count && contains(emu.arguments[last], at, bytes)) {
        return last;
    }
    int i = 0;
    while (i < metal.argument_count && !contains(emu.arguments[i], at, bytes)) {
        i++;
    }
    return i;
}

static inline void watch(char* at, int bytes, bool write) {
    if ((unsigned long long)(at - emu.stacks) < (unsigned long long)(STACK * GROUP)) {
        return;
    }
    for (int i = 0; i < metal.array_count; i++) {
        if ((unsigned long long)(at - metal.arrays[i].begin) < (unsigned long long)metal.arrays[i].bytes) {
            watch_shared(metal.arrays[i], at - metal.arrays[i].begin, bytes, write);
            return;
        }
    }
    int argument = argument_of(at, bytes);
    if (argument < metal.argument_count) {
        metal.last_argument = argument;
        if (metal.accessed) {
            report(at, bytes, write);
        }
        return;
    }
    if ((unsigned long long)(at - (char*)&emulator_current) < sizeof emulator_current) {
        return;
    }
    outside(at, bytes);
}

// A GPU gives no right answer for a vector that is not aligned to its size.
static inline void watch_aligned(char* at, int bytes, bool write) {
    watch(at, bytes, write);
    if ((unsigned long long)at % bytes != 0) {
        fault("%s of %d bytes at an address that is not a multiple of that", write ? "a store" : "a load", bytes);
    }
}

static void watch_range(char* at, size_t size, bool write) {
    for (size_t i = 0; i < size; i++) {
        watch(at + i, 1, write);
    }
}

} // namespace emulator

extern "C" {
#define WATCH(n) \
    void __tsan_read##n(char* at) { emulator::watch_aligned(at, n, false); } \
    void __tsan_write##n(char* at) { emulator::watch_aligned(at, n, true); } \
    void __tsan_read_write##n(char* at) { \
        __tsan_read##n(at); \
        __tsan_write##n(at); \
    } \
    void __tsan_unaligned_read##n(char* at) { emulator::watch(at, n, false); } \
    void __tsan_unaligned_write##n(char* at) { emulator::watch(at, n, true); } \
    void __tsan_unaligned_read_write##n(char* at) { \
        emulator::watch(at, n, false); \
        emulator::watch(at, n, true); \
    }
WATCH(1)
WATCH(2)
WATCH(4)
WATCH(8)
WATCH(16)

void* __tsan_memcpy(char* to, char* from, size_t size) {
    emulator::watch_range(from, size, false);
    emulator::watch_range(to, size, true);
    return memcpy(to, from, size);
}

void* __tsan_memset(char* to, int value, size_t size) {
    emulator::watch_range(to, size, true);
    return memset(to, value, size);
}

void __tsan_init() {}
}
