// Layer norm, one group for each row of C channels. Statistics are float32; the variance is taken around the mean, in a
// second pass, because E[x^2] - E[x]^2 cancels.

KERNEL(LayerNorm, IN(float, x), IN(float, w), IN(float, b), OUT(float, y), OUT(float, means), OUT(float, rstds),
       ARG(i64, c), ARG(float, eps)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 row = (i64)GROUP_X * c;
    float sum = 0;
    for (i64 i = THREAD; i < c; i += GROUP) {
        sum += x[row + i];
    }
    float mean = group_mean(sum, c, scratch);
    float square = 0;
    for (i64 i = THREAD; i < c; i += GROUP) {
        float centered = x[row + i] - mean;
        square += centered * centered;
    }
    float rstd = 1.0f / sqrtf(group_mean(square, c, scratch) + eps);
    for (i64 i = THREAD; i < c; i += GROUP) {
        y[row + i] = (x[row + i] - mean) * rstd * w[i] + b[i];
    }
    if (THREAD == 0) {
        means[GROUP_X] = mean;
        rstds[GROUP_X] = rstd;
    }
}

KERNEL(LayerNormGrad, IN(float, x), IN(float, w), IN(float, means), IN(float, rstds), IN(float, dy), OUT(float, dx),
       ARG(i64, c)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 row = (i64)GROUP_X * c;
    float mean = means[GROUP_X];
    float rstd = rstds[GROUP_X];
    float sum = 0;
    float dot = 0;
    for (i64 i = THREAD; i < c; i += GROUP) {
        float d = dy[row + i] * w[i];
        sum += d;
        dot += d * ((x[row + i] - mean) * rstd);
    }
    sum = group_mean(sum, c, scratch);
    dot = group_mean(dot, c, scratch);
    for (i64 i = THREAD; i < c; i += GROUP) {
        float normal = (x[row + i] - mean) * rstd;
        dx[row + i] = rstd * (dy[row + i] * w[i] - sum - normal * dot);
    }
}

// One group for SIMD columns.
KERNEL(LayerNormGradWeights, IN(float, x), IN(float, means), IN(float, rstds), IN(float, dy), OUT(float, dw),
       OUT(float, db), ARG(i64, rows), ARG(i64, c)) {
    SHARED(float, partial, GROUP);
    i64 i = (i64)GROUP_X * SIMD + LANE;
    float w = 0;
    float b = 0;
    if (i < c) {
        for (i64 row = SIMDGROUP; row < rows; row += SIMDGROUPS) {
            float d = dy[row * c + i];
            w += d * ((x[row * c + i] - means[row]) * rstds[row]);
            b += d;
        }
    }
    w = column_sum(w, partial);
    b = column_sum(b, partial);
    if (SIMDGROUP == 0 && i < c) {
        dw[i] = w;
        db[i] = b;
    }
}
