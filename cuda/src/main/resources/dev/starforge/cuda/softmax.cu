// One group for each row.

KERNEL(Softmax, IN(float, x), OUT(float, y), ARG(i64, width)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 row = (i64)GROUP_X * width;
    float max = -INFINITE;
    for (i64 i = THREAD; i < width; i += GROUP) {
        max = larger(max, x[row + i]);
    }
    max = group_max(max, scratch);
    float sum = 0;
    for (i64 i = THREAD; i < width; i += GROUP) {
        sum += expf(x[row + i] - max);
    }
    sum = group_sum(sum, scratch);
    for (i64 i = THREAD; i < width; i += GROUP) {
        y[row + i] = expf(x[row + i] - max) / sum;
    }
}

KERNEL(SoftmaxGrad, IN(float, y), IN(float, dy), OUT(float, dx), ARG(i64, width)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 row = (i64)GROUP_X * width;
    float dot = 0;
    for (i64 i = THREAD; i < width; i += GROUP) {
        dot += y[row + i] * dy[row + i];
    }
    dot = group_sum(dot, scratch);
    for (i64 i = THREAD; i < width; i += GROUP) {
        dx[row + i] = y[row + i] * (dy[row + i] - dot);
    }
}

KERNEL(LogSumExp, IN(float, x), OUT(float, y), ARG(i64, width)) {
    SHARED(float, scratch, SIMDGROUPS);
    float lse = row_lse(x + (i64)GROUP_X * width, width, scratch);
    if (THREAD == 0) {
        y[GROUP_X] = lse;
    }
}

// Of two candidates the larger wins, of equals the lower index; NaN is never larger.
KERNEL(Argmax, IN(float, x), OUT(int, y), ARG(int, width)) {
    SHARED(float, value, GROUP);
    SHARED(int, index, GROUP);
    i64 row = (i64)GROUP_X * width;
    float most = -INFINITE;
    int best = width;
    for (int i = THREAD; i < width; i += GROUP) {
        if (x[row + i] > most) {
            most = x[row + i];
            best = i;
        }
    }
    value[THREAD] = most;
    index[THREAD] = best;
    BARRIER();
    for (int half = GROUP / 2; half > 0; half /= 2) {
        if (THREAD < half) {
            float other = value[THREAD + half];
            int at = index[THREAD + half];
            if (other > value[THREAD] || (other == value[THREAD] && at < index[THREAD])) {
                value[THREAD] = other;
                index[THREAD] = at;
            }
        }
        BARRIER();
    }
    if (THREAD == 0) {
        y[GROUP_X] = index[0] < width ? index[0] : 0;
    }
}
