// The optimizer step, and the norm of all gradients that it clips by.
//
// The norm of many tensors is one launch of NormPart for each, which adds to a fixed number of partial sums in `wide`,
// and one of Norm, which adds those up. Which element goes to which partial sum depends on its index alone.

KERNEL(NormPart, IN(float, x), OUT(wide, parts), ARG(i64, n), ARG(int, first)) {
    SHARED(wide, scratch, SIMDGROUPS);
    wide sum = 0;
    for (i64 i = ELEMENT; i < n; i += (i64)GROUPS_X * GROUP) {
        sum += (wide)x[i] * (wide)x[i];
    }
    sum = simd_sum_wide(sum);
    if (LANE == 0) {
        scratch[SIMDGROUP] = sum;
    }
    BARRIER();
    if (THREAD == 0) {
        wide total = first ? (wide)0 : parts[GROUP_X];
        for (int i = 0; i < SIMDGROUPS; i++) {
            total += scratch[i];
        }
        parts[GROUP_X] = total;
    }
}

KERNEL(Norm, IN(wide, parts), OUT(float, y), ARG(int, count)) {
    SHARED(wide, scratch, SIMDGROUPS);
    wide sum = 0;
    for (int i = THREAD; i < count; i += GROUP) {
        sum += parts[i];
    }
    sum = simd_sum_wide(sum);
    if (LANE == 0) {
        scratch[SIMDGROUP] = sum;
    }
    BARRIER();
    if (THREAD == 0) {
        wide total = 0;
        for (int i = 0; i < SIMDGROUPS; i++) {
            total += scratch[i];
        }
        y[0] = (float)sqrt(total);
    }
}

// complement1 and complement2 are 1 - beta, rounded once on the host; beta itself rounded to float would bias v. A NaN norm makes the step NaN, not unclipped.
KERNEL(AdamW, OUT(float, p), OUT(float, m), OUT(float, v), IN(float, g), IN(float, norm), IN(float, rate), ARG(i64, n),
       ARG(float, complement1), ARG(float, complement2), ARG(float, eps),
       ARG(float, decay), ARG(float, max_norm)) {
    i64 i = ELEMENT;
    if (i >= n) {
        return;
    }
    float ratio = max_norm / (norm[0] + 1e-6f);
    float clip = ratio >= 1.0f ? 1.0f : ratio;
    float lr = rate[0];
    float gi = g[i] * clip;
    float mi = m[i] + complement1 * (gi - m[i]);
    float vi = v[i] + complement2 * (gi * gi - v[i]);
    float update = mi / rate[1] / (sqrtf(vi / rate[2]) + eps);
    p[i] -= lr * (decay * p[i] + update);
    m[i] = mi;
    v[i] = vi;
}
