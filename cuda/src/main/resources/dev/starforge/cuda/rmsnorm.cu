// Root-mean-square norm, one group for each row of C channels. Statistics are float32.

KERNEL(RmsNorm, IN(float, x), IN(float, w), OUT(float, y), OUT(float, rstds), ARG(i64, c), ARG(float, eps)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 row = (i64)GROUP_X * c;
    float square = 0;
    for (i64 i = THREAD; i < c; i += GROUP) {
        square += x[row + i] * x[row + i];
    }
    float rstd = 1.0f / sqrtf(group_mean(square, c, scratch) + eps);
    for (i64 i = THREAD; i < c; i += GROUP) {
        y[row + i] = x[row + i] * rstd * w[i];
    }
    if (THREAD == 0) {
        rstds[GROUP_X] = rstd;
    }
}

KERNEL(RmsNormGrad, IN(float, x), IN(float, w), IN(float, rstds), IN(float, dy), OUT(float, dx), ARG(i64, c)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 row = (i64)GROUP_X * c;
    float rstd = rstds[GROUP_X];
    float dot = 0;
    for (i64 i = THREAD; i < c; i += GROUP) {
        dot += dy[row + i] * w[i] * (x[row + i] * rstd);
    }
    dot = group_mean(dot, c, scratch);
    for (i64 i = THREAD; i < c; i += GROUP) {
        dx[row + i] = rstd * (dy[row + i] * w[i] - x[row + i] * rstd * dot);
    }
}

// One group for SIMD columns.
KERNEL(RmsNormGradWeights, IN(float, x), IN(float, rstds), IN(float, dy), OUT(float, dw), ARG(i64, rows), ARG(i64, c)) {
    SHARED(float, partial, GROUP);
    i64 i = (i64)GROUP_X * SIMD + LANE;
    float w = 0;
    if (i < c) {
        for (i64 row = SIMDGROUP; row < rows; row += SIMDGROUPS) {
            w += dy[row * c + i] * (x[row * c + i] * rstds[row]);
        }
    }
    w = column_sum(w, partial);
    if (SIMDGROUP == 0 && i < c) {
        dw[i] = w;
    }
}
