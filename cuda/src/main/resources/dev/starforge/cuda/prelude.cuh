// The common dialect, spelled for CUDA. Kernels are written in it and in nothing else, so that another prelude makes
// the same text compile elsewhere: groups of 256 threads in eight simdgroups of 32, buffers, scalars, shared arrays, a
// barrier, and sums, maxima and votes over a simdgroup. Only this file may name a CUDA builtin.
//
// Every kernel is launched with groups of exactly GROUP threads; what varies is how many groups.

#define GROUP 256
#define SIMD 32
#define SIMDGROUPS 8

typedef long long i64;

// double where the chip has it, and the widest there is elsewhere; for sums over whole models.
typedef double wide;

#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(GROUP) name(__VA_ARGS__)
#define FUNCTION __device__ __forceinline__
#define IN(type, name) const type* name
#define OUT(type, name) type* name
#define ARG(type, name) type name
#define CONSTANT __constant__ const
#define GLOBAL
#define LOCAL
#define SHARED(type, name, size) __shared__ __align__(16) type name[size]

#define GROUP_X blockIdx.x
#define GROUP_Y blockIdx.y
#define GROUP_Z blockIdx.z
#define GROUPS_X gridDim.x
#define GROUPS_Z gridDim.z
#define THREAD threadIdx.x
#define LANE (threadIdx.x % SIMD)
#define SIMDGROUP (threadIdx.x / SIMD)
#define ELEMENT ((i64)blockIdx.x * GROUP + threadIdx.x)
#define BARRIER() __syncthreads()

#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

FUNCTION float as_float(unsigned bits) {
    return __uint_as_float(bits);
}

FUNCTION unsigned as_bits(float x) {
    return __float_as_uint(x);
}

FUNCTION float multiply_add(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}

// One rounding each, never fused with a neighbour: for operations that are defined to the bit.
FUNCTION float times(float a, float b) {
    return __fmul_rn(a, b);
}

FUNCTION float plus(float a, float b) {
    return __fadd_rn(a, b);
}

FUNCTION unsigned high_product(unsigned a, unsigned b) {
    return __umulhi(a, b);
}

// The larger of two, and NaN when either is.
FUNCTION float larger(float a, float b) {
    return a > b || a != a ? a : b;
}

// Every lane gets the same bits: at each level both partners add the same two numbers.
FUNCTION float simd_sum(float x) {
#pragma unroll
    for (int distance = SIMD / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
}

FUNCTION wide simd_sum_wide(wide x) {
#pragma unroll
    for (int distance = SIMD / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
}

FUNCTION float simd_max(float x) {
#pragma unroll
    for (int distance = SIMD / 2; distance > 0; distance /= 2) {
        x = larger(x, __shfl_xor_sync(0xffffffffu, x, distance));
    }
    return x;
}

// Bit i is what lane i says.
FUNCTION unsigned simd_ballot(bool says) {
    return __ballot_sync(0xffffffffu, says);
}

FUNCTION int bit_count(unsigned bits) {
    return __popc(bits);
}

// Storage types. Arithmetic is float32 whatever the storage, rounding is to nearest even, subnormals are kept.
typedef float f32;
struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};

FUNCTION float widen(f32 x) {
    return x;
}

FUNCTION float widen(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

FUNCTION float widen(bf16 x) {
    return as_float((unsigned)x.bits << 16);
}

FUNCTION f16 narrow_f16(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

FUNCTION bf16 narrow_bf16(float x) {
    unsigned bits = as_bits(x);
    bf16 y;
    y.bits = (unsigned short)(x != x ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    return y;
}
