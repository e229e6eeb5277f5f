// op(a) op(b), batched; common.cuh says how and in which order it is summed. One group for each tile.

template <typename T>
FUNCTION void matmul(GLOBAL const float* a, GLOBAL const T* b, GLOBAL float* c, int batches, int rows, int columns,
                     int terms, int transpose_a, int transpose_b, LOCAL float* as, LOCAL float* bs) {
    for (int batch = GROUP_Z; batch < batches; batch += GROUPS_Z) {
        tile_product<T>(a + (i64)batch * rows * terms, b + (i64)batch * terms * columns,
                        c + (i64)batch * rows * columns, GROUP_Y * TILE, rows, GROUP_X * TILE, columns, terms,
                        transpose_a, transpose_b, as, bs);
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

template <typename T>
FUNCTION void matmul_few(GLOBAL const float* a, GLOBAL const T* b, GLOBAL float* c, int batches, int rows, int columns,
                         int terms, LOCAL float* as, LOCAL float* bs) {
    for (int batch = GROUP_Z; batch < batches; batch += GROUPS_Z) {
        few_product<T>(a + (i64)batch * rows * terms, b + (i64)batch * terms * columns,
                       c + (i64)batch * rows * columns, GROUP_Y * FEW, rows, columns, terms, as, bs);
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
