// op(a) op(b) in float32 with fused multiply-adds; a is float32, b has any storage. M rows, N columns, K terms.
//
// The order of a sum is fixed, whatever M is and whichever kernel runs: the terms of each chunk of CHUNK in ascending
// order from zero, then the chunks in ascending order. So a row has the same bits alone and in a batch, and the chunks
// of one sum can be worked on side by side.

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

// One group computes a TILE x TILE tile of c, a thread 4 x 4 of it; tiles of a and b pass through shared memory. TILE
// is 64 so that a few hundred rows already fill the chip.
template <typename T>
FUNCTION void matmul(GLOBAL const float* a, GLOBAL const T* b, GLOBAL float* c, int batches, int rows, int columns,
                     int terms, int transpose_a, int transpose_b, LOCAL float* as, LOCAL float* bs) {
    int row0 = GROUP_Y * TILE;
    int column0 = GROUP_X * TILE;
    int ty = THREAD / 16 * 4;
    int tx = THREAD % 16 * 4;
    for (int batch = GROUP_Z; batch < batches; batch += GROUPS_Z) {
        GLOBAL const float* a0 = a + (i64)batch * rows * terms;
        GLOBAL const T* b0 = b + (i64)batch * terms * columns;
        GLOBAL float* c0 = c + (i64)batch * rows * columns;
        float total[4][4] = {};
        float sum[4][4] = {};
        for (int k0 = 0; k0 < terms; k0 += STEP) {
            stage<float>(a0, row0, rows, k0, terms, transpose_a, as);
            stage<T>(b0, column0, columns, k0, terms, !transpose_b, bs);
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
                    c0[row * columns + column] = total[i][j];
                }
            }
        }
    }
}

#define MATMUL(name, T)                                                                                             \
    KERNEL(name, IN(float, a), IN(T, b), OUT(float, c), ARG(int, batches), ARG(int, rows), ARG(int, columns),       \
           ARG(int, terms), ARG(int, transpose_a), ARG(int, transpose_b)) {                                         \
        SHARED(float, as, STEP* PITCH);                                                                             \
        SHARED(float, bs, STEP* PITCH);                                                                             \
        matmul<T>(a, b, c, batches, rows, columns, terms, transpose_a, transpose_b, as, bs);                        \
    }

MATMUL(MatMul_F32, f32)
MATMUL(MatMul_F16, f16)
MATMUL(MatMul_BF16, bf16)

#define FEW 8
#define SLAB 16

// a times b transposed for few rows, which is decoding: the time is that of reading b once. A simdgroup owns a column,
// a lane the chunks lane, lane + 32, ... of its sum, and a group FEW rows of a. Slabs of SLAB terms of every chunk pass
// through shared memory, read from b as runs of SLAB neighbours.
template <typename T>
FUNCTION void matmul_few(GLOBAL const float* a, GLOBAL const T* b, GLOBAL float* c, int batches, int rows, int columns,
                         int terms, LOCAL float* as, LOCAL float* bs) {
    int row0 = GROUP_Y * FEW;
    i64 column = (i64)GROUP_X * SIMDGROUPS + SIMDGROUP;
    int few = rows - row0 < FEW ? rows - row0 : FEW;
    for (int batch = GROUP_Z; batch < batches; batch += GROUPS_Z) {
        GLOBAL const float* a0 = a + ((i64)batch * rows + row0) * terms;
        GLOBAL const T* b0 = b + (i64)batch * terms * columns;
        float total = 0; // in the first FEW * SIMDGROUPS threads: of one row and column of the group each
        for (int k0 = 0; k0 < terms; k0 += SIMD * CHUNK) {
            float sum[FEW] = {};
            for (int slab = 0; slab < CHUNK; slab += SLAB) {
                for (int i = LANE; i < SIMD * SLAB; i += SIMD) {
                    i64 term = (i64)k0 + i / SLAB * CHUNK + slab + i % SLAB;
                    int at = i / SLAB * (SLAB + 1) + i % SLAB;
                    bs[SIMDGROUP * SIMD * (SLAB + 1) + at] =
                        column < columns && term < terms ? widen(b0[column * terms + term]) : 0.0f;
                    as[SIMDGROUP * SIMD * (SLAB + 1) + at] =
                        SIMDGROUP < few && term < terms ? a0[SIMDGROUP * (i64)terms + term] : 0.0f;
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
            c[((i64)batch * rows + row0 + m) * columns + n] = total;
        }
    }
}

#define MATMUL_FEW(name, T)                                                                                         \
    KERNEL(name, IN(float, a), IN(T, b), OUT(float, c), ARG(int, batches), ARG(int, rows), ARG(int, columns),       \
           ARG(int, terms)) {                                                                                       \
        SHARED(float, as, GROUP * (SLAB + 1));                                                                      \
        SHARED(float, bs, GROUP * (SLAB + 1));                                                                      \
        matmul_few<T>(a, b, c, batches, rows, columns, terms, as, bs);                                              \
    }

MATMUL_FEW(MatMulFew_F32, f32)
MATMUL_FEW(MatMulFew_F16, f16)
MATMUL_FEW(MatMulFew_BF16, bf16)
