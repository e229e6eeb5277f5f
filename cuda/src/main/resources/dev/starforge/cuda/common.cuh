// What several kernel files share, in the common dialect: storage chosen at run time, elementwise functions, and sums
// over a group in an order that depends on nothing but the shape.

// Codes of element types; the host passes the same numbers.
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_BF16 2
#define TYPE_I32 3

FUNCTION float load(GLOBAL const void* x, int type, i64 i) {
    switch (type) {
        case TYPE_F16:
            return widen(((GLOBAL const f16*)x)[i]);
        case TYPE_BF16:
            return widen(((GLOBAL const bf16*)x)[i]);
        case TYPE_I32:
            return (float)((GLOBAL const int*)x)[i];
        default:
            return ((GLOBAL const float*)x)[i];
    }
}

FUNCTION void store(GLOBAL void* y, int type, i64 i, float value) {
    switch (type) {
        case TYPE_F16:
            ((GLOBAL f16*)y)[i] = narrow_f16(value);
            break;
        case TYPE_BF16:
            ((GLOBAL bf16*)y)[i] = narrow_bf16(value);
            break;
        default:
            ((GLOBAL float*)y)[i] = value;
    }
}

// 64-bit division is some hundred instructions; nearly all tensors fit the 32-bit one.
FUNCTION i64 quotient(i64 a, i64 b) {
    return ((a | b) >> 32) == 0 ? (i64)((unsigned)a / (unsigned)b) : a / b;
}

FUNCTION i64 remainder_of(i64 a, i64 b) {
    return a - quotient(a, b) * b;
}

// Codes of elementwise functions; the host passes the same numbers.
#define FN_EXP 0
#define FN_RSQRT 1
#define FN_SIN 2
#define FN_COS 3
#define FN_SILU 4
#define FN_GELU_TANH 5

#define ROOT_2_OVER_PI 0.7978845608028654f
#define GELU_CUBIC 0.044715f

FUNCTION float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

// (1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel where tanh is near -1.
FUNCTION float gelu_gate(float x) {
    return 2.0f * ROOT_2_OVER_PI * (x + GELU_CUBIC * x * x * x);
}

FUNCTION float apply(int fn, float x) {
    switch (fn) {
        case FN_EXP:
            return expf(x);
        case FN_RSQRT:
            return 1.0f / sqrtf(x);
        case FN_SIN:
            return sinf(x);
        case FN_COS:
            return cosf(x);
        case FN_SILU:
            return x * sigmoid(x);
        default:
            return x * sigmoid(gelu_gate(x));
    }
}

FUNCTION float slope(int fn, float x) {
    switch (fn) {
        case FN_EXP:
            return expf(x);
        case FN_RSQRT:
            return -0.5f / (x * sqrtf(x));
        case FN_SIN:
            return cosf(x);
        case FN_COS:
            return -sinf(x);
        case FN_SILU:
            return sigmoid(x) * (1.0f + x * sigmoid(-x));
        default: {
            float u = gelu_gate(x);
            float du = 2.0f * ROOT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBIC * x * x);
            return sigmoid(u) * (1.0f + x * sigmoid(-u) * du);
        }
    }
}

// Sums over the group; every thread gets the result. scratch has SIMDGROUPS elements and is free again afterwards.
FUNCTION float group_sum(float x, LOCAL float* scratch) {
    x = simd_sum(x);
    if (LANE == 0) {
        scratch[SIMDGROUP] = x;
    }
    BARRIER();
    float sum = 0;
    for (int i = 0; i < SIMDGROUPS; i++) {
        sum += scratch[i];
    }
    BARRIER();
    return sum;
}

FUNCTION float group_max(float x, LOCAL float* scratch) {
    x = simd_max(x);
    if (LANE == 0) {
        scratch[SIMDGROUP] = x;
    }
    BARRIER();
    float max = scratch[0];
    for (int i = 1; i < SIMDGROUPS; i++) {
        max = larger(max, scratch[i]);
    }
    BARRIER();
    return max;
}

// log(sum(exp(x))) of one row by one group; -infinity for a row of nothing or of -infinity.
FUNCTION float row_lse(GLOBAL const float* x, i64 width, LOCAL float* scratch) {
    float max = -INFINITE;
    for (i64 i = THREAD; i < width; i += GROUP) {
        max = larger(max, x[i]);
    }
    max = group_max(max, scratch);
    if (max == -INFINITE) {
        return max;
    }
    float sum = 0;
    for (i64 i = THREAD; i < width; i += GROUP) {
        sum += expf(x[i] - max);
    }
    return max + logf(group_sum(sum, scratch));
}

// The first key that a query at this position sees.
FUNCTION int first_seen(int window, int position) {
    int first = window == 0 ? 0 : position - window + 1;
    return first > 0 ? first : 0;
}

// Sums of SIMD columns by one group: thread (lane, simdgroup) has added the rows of its simdgroup for its column, and
// all get the whole of their column. partial has GROUP elements and is free again afterwards.
FUNCTION float column_sum(float x, LOCAL float* partial) {
    partial[THREAD] = x;
    BARRIER();
    float sum = 0;
    for (int i = 0; i < SIMDGROUPS; i++) {
        sum += partial[i * SIMD + LANE];
    }
    BARRIER();
    return sum;
}
