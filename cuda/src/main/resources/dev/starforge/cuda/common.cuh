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
#define FN_RECIPROCAL 2
#define FN_SIGMOID 3
#define FN_SIN 4
#define FN_COS 5
#define FN_SILU 6
#define FN_GELU_TANH 7

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
        case FN_RECIPROCAL:
            return 1.0f / x;
        case FN_SIGMOID:
            return sigmoid(x);
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
        case FN_RECIPROCAL:
            return -1.0f / (x * x);
        case FN_SIGMOID:
            return sigmoid(x) * sigmoid(-x);
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

// One of the four words of Philox4x32-10 (Salmon et al. 2011) for a counter and a key.
FUNCTION unsigned philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1, int word) {
    for (int round = 0; round < 10; round++) {
        unsigned n0 = high_product(0xCD9E8D57u, c2) ^ c1 ^ k0;
        unsigned n1 = 0xCD9E8D57u * c2;
        unsigned n2 = high_product(0xD2511F53u, c0) ^ c3 ^ k1;
        unsigned n3 = 0xD2511F53u * c0;
        c0 = n0;
        c1 = n1;
        c2 = n2;
        c3 = n3;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
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

// The mean of `count` numbers that the group has added up in parts; 0 of none.
FUNCTION float group_mean(float x, i64 count, LOCAL float* scratch) {
    return group_sum(x, scratch) / (count > 0 ? count : 1);
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

// How many threads of the group before this one, and how many in all, say yes.
struct Place {
    int before;
    int total;
};

// scratch has SIMDGROUPS elements and is free again afterwards.
FUNCTION Place group_place(bool says, LOCAL int* scratch) {
    unsigned bits = simd_ballot(says);
    if (LANE == 0) {
        scratch[SIMDGROUP] = bit_count(bits);
    }
    BARRIER();
    Place place = {bit_count(bits & ((1u << LANE) - 1u)), 0};
    for (int i = 0; i < SIMDGROUPS; i++) {
        place.before += i < SIMDGROUP ? scratch[i] : 0;
        place.total += scratch[i];
    }
    BARRIER();
    return place;
}

// Products op(a) op(b) in float32 with fused multiply-adds; a is float32, b has any storage.
//
// The order of a sum is fixed, however many rows there are and whichever kernel runs: the terms of each chunk of CHUNK
// in ascending order from zero, then the chunks in ascending order. So a row has the same bits alone and in a batch,
// and the chunks of one sum can be worked on side by side.

#define CHUNK 128

#define TILE 64
#define STEP 16
#define PITCH (TILE + 4) // keeps 16-byte alignment and spreads the banks

// Brings STEP terms of TILE lines (rows of a, columns of b) into shared memory, [STEP][PITCH], zero outside. Threads go
// along whatever lies side by side in memory.
template <typename T>
FUNCTION void stage(GLOBAL const T* x, int line0, int lines, int k0, int terms, bool lines_adjacent, LOCAL float* to) {
    i64 line_stride = lines_adjacent ? 1 : terms;
    i64 term_stride = lines_adjacent ? lines : 1;
    int k = lines_adjacent ? THREAD / TILE : THREAD % STEP;
    int line = lines_adjacent ? THREAD % TILE : THREAD / STEP;
    int k_hop = lines_adjacent ? GROUP / TILE : 0;
    int line_hop = lines_adjacent ? 0 : GROUP / STEP;
#pragma unroll
    for (int i = 0; i < TILE * STEP / GROUP; i++) {
        bool inside = line0 + line < lines && k0 + k < terms;
        to[k * PITCH + line] = inside ? widen(x[(line0 + line) * line_stride + (k0 + k) * term_stride]) : 0.0f;
        k += k_hop;
        line += line_hop;
    }
}

// One group computes the TILE x TILE tile of c at row0 and column0, a thread 4 x 4 of it; tiles of a and b pass through
// shared memory, STEP * PITCH elements each. TILE is 64 so that a few hundred rows already fill the chip.
template <typename T>
FUNCTION void tile_product(GLOBAL const float* a, GLOBAL const T* b, GLOBAL float* c, int row0, int rows, int column0,
                           int columns, int terms, int transpose_a, int transpose_b, LOCAL float* as,
                           LOCAL float* bs) {
    int ty = THREAD / 16 * 4;
    int tx = THREAD % 16 * 4;
    float total[4][4] = {};
    float sum[4][4] = {};
    for (int k0 = 0; k0 < terms; k0 += STEP) {
        stage<float>(a, row0, rows, k0, terms, transpose_a, as);
        stage<T>(b, column0, columns, k0, terms, !transpose_b, bs);
        BARRIER();
#pragma unroll
        for (int k = 0; k < STEP; k++) {
            float ra[4];
            float rb[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                ra[i] = as[k * PITCH + ty + i];
                rb[i] = bs[k * PITCH + tx + i];
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    sum[i][j] = multiply_add(ra[i], rb[j], sum[i][j]);
                }
            }
        }
        BARRIER();
        if ((k0 + STEP) % CHUNK == 0 || k0 + STEP >= terms) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    total[i][j] += sum[i][j];
                    sum[i][j] = 0;
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            i64 row = row0 + ty + i;
            i64 column = column0 + tx + j;
            if (row < rows && column < columns) {
                c[row * columns + column] = total[i][j];
            }
        }
    }
}

#define FEW 8
#define SLAB 16

// a times b transposed for few rows, which is decoding: the time is that of reading b once. A simdgroup owns a column,
// a lane the chunks lane, lane + 32, ... of its sum, and a group the FEW rows of a from row0 on. Slabs of SLAB terms of
// every chunk pass through shared memory, GROUP * (SLAB + 1) elements, read from b as runs of SLAB neighbours.
template <typename T>
FUNCTION void few_product(GLOBAL const float* a, GLOBAL const T* b, GLOBAL float* c, int row0, int rows, int columns,
                          int terms, LOCAL float* as, LOCAL float* bs) {
    i64 column = (i64)GROUP_X * SIMDGROUPS + SIMDGROUP;
    int few = rows - row0 < FEW ? rows - row0 : FEW;
    float total = 0; // in the first FEW * SIMDGROUPS threads: of one row and column of the group each
    for (int k0 = 0; k0 < terms; k0 += SIMD * CHUNK) {
        float sum[FEW] = {};
        for (int slab = 0; slab < CHUNK; slab += SLAB) {
            for (int i = LANE; i < SIMD * SLAB; i += SIMD) {
                i64 term = (i64)k0 + i / SLAB * CHUNK + slab + i % SLAB;
                int at = i / SLAB * (SLAB + 1) + i % SLAB;
                bs[SIMDGROUP * SIMD * (SLAB + 1) + at] =
                    column < columns && term < terms ? widen(b[column * terms + term]) : 0.0f;
                as[SIMDGROUP * SIMD * (SLAB + 1) + at] =
                    SIMDGROUP < few && term < terms ? a[(row0 + SIMDGROUP) * (i64)terms + term] : 0.0f;
            }
            BARRIER();
            for (int k = 0; k < SLAB; k++) {
                float rb = bs[THREAD * (SLAB + 1) + k];
#pragma unroll
                for (int m = 0; m < FEW; m++) {
                    if (m < few) {
                        sum[m] = multiply_add(as[(m * SIMD + LANE) * (SLAB + 1) + k], rb, sum[m]);
                    }
                }
            }
            BARRIER();
        }
#pragma unroll
        for (int m = 0; m < FEW; m++) {
            as[(m * SIMDGROUPS + SIMDGROUP) * (SIMD + 1) + LANE] = sum[m];
        }
        BARRIER();
        if (THREAD < FEW * SIMDGROUPS) {
            for (int chunk = 0; chunk < SIMD && k0 + chunk * CHUNK < terms; chunk++) {
                total += as[THREAD * (SIMD + 1) + chunk];
            }
        }
        BARRIER();
    }
    int m = THREAD / SIMDGROUPS;
    i64 n = (i64)GROUP_X * SIMDGROUPS + THREAD % SIMDGROUPS;
    if (m < few && n < columns) {
        c[(i64)(row0 + m) * columns + n] = total;
    }
}
