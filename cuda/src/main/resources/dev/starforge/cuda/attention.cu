// Causal attention over a ragged batch with paged keys and values; the contract is that of the operation. N queries, H
// heads, D head size (at most 256), S sequences, M table width.
//
// Plain kernels: one group for each query and head, a simdgroup for every eighth run of KEYS keys, a lane for every
// 32nd dimension, and a softmax that is rescaled as larger scores come (Milakov and Gimelshein 2018). No tile of
// queries shares its keys, so they are read once for each query. What is merged is merged in simdgroup order.

#define KEYS 4
#define PER_LANE 8
#define MAX_D (SIMD * PER_LANE)

KERNEL(Mask, IN(float, x), IN(int, starts), IN(int, positions), OUT(float, y), ARG(i64, n), ARG(int, tokens),
       ARG(i64, keys), ARG(i64, width), ARG(int, window)) {
    i64 i = ELEMENT; // of [G, N, S * L]; width is S * L, keys is L
    if (i >= n) {
        return;
    }
    i64 line = quotient(i, width);
    i64 key = i - line * width;
    i64 token = remainder_of(line, tokens);
    i64 s = quotient(key, keys);
    i64 t = key - s * keys;
    int position = positions[token];
    bool seen = token >= starts[s] && token < starts[s + 1] && t <= position && t >= first_seen(window, position);
    y[i] = seen ? x[i] : -INFINITE;
}

// The sequence that query n belongs to: the last one that does not start behind it, or -1 when n is in none.
FUNCTION int sequence_of(GLOBAL const int* starts, int sequences, int n) {
    int low = 0;
    int high = sequences + 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (starts[middle] <= n) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > sequences ? -1 : low - 1;
}

// Where the key at position t of a sequence begins, given its row of the table.
FUNCTION i64 key_at(GLOBAL const int* table, int block, int t, int kv_heads, int kv_head, int d) {
    i64 row = (i64)table[t / block] * block + t % block;
    return (row * kv_heads + kv_head) * d;
}

template <typename T>
FUNCTION void attention(GLOBAL const float* q, GLOBAL const T* k, GLOBAL const T* v, GLOBAL const int* starts,
                        GLOBAL const int* positions, GLOBAL const int* tables, GLOBAL float* y, GLOBAL float* lse,
                        int heads, int kv_heads, int d, int sequences, int table_width, int block, int window,
                        float scale, LOCAL float* maxima, LOCAL float* sums, LOCAL float* weighted) {
    int n = GROUP_X;
    int head = GROUP_Y;
    int kv_head = head / (heads / kv_heads);
    i64 at = ((i64)n * heads + head) * d;
    int s = sequence_of(starts, sequences, n);
    int last = s < 0 ? -1 : positions[n];
    int first = first_seen(window, last);
    GLOBAL const int* table = tables + (i64)s * table_width;

    float query[PER_LANE];
    float sum_v[PER_LANE];
    for (int j = 0; j < PER_LANE; j++) {
        int e = LANE + j * SIMD;
        query[j] = e < d ? q[at + e] * scale : 0.0f;
        sum_v[j] = 0;
    }
    float max = -INFINITE;
    float sum = 0;
    for (int t0 = first + SIMDGROUP * KEYS; t0 <= last; t0 += SIMDGROUPS * KEYS) {
        i64 key[KEYS];
        float score[KEYS];
#pragma unroll
        for (int u = 0; u < KEYS; u++) {
            key[u] = key_at(table, block, t0 + u <= last ? t0 + u : last, kv_heads, kv_head, d);
            score[u] = 0;
        }
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            int e = LANE + j * SIMD;
            if (e < d) {
#pragma unroll
                for (int u = 0; u < KEYS; u++) {
                    score[u] = multiply_add(query[j], widen(k[key[u] + e]), score[u]);
                }
            }
        }
        float most = max;
#pragma unroll
        for (int u = 0; u < KEYS; u++) {
            score[u] = simd_sum(score[u]);
            score[u] = t0 + u <= last ? score[u] : -INFINITE;
            most = larger(most, score[u]);
        }
        float shrink = expf(max - most);
        max = most;
        sum *= shrink;
#pragma unroll
        for (int u = 0; u < KEYS; u++) {
            score[u] = expf(score[u] - max);
            sum += score[u];
        }
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            int e = LANE + j * SIMD;
            if (e < d) {
                sum_v[j] *= shrink;
#pragma unroll
                for (int u = 0; u < KEYS; u++) {
                    sum_v[j] = multiply_add(score[u], widen(v[key[u] + e]), sum_v[j]);
                }
            }
        }
    }

    if (LANE == 0) {
        maxima[SIMDGROUP] = max;
        sums[SIMDGROUP] = sum;
    }
#pragma unroll
    for (int j = 0; j < PER_LANE; j++) {
        weighted[SIMDGROUP * MAX_D + LANE + j * SIMD] = sum_v[j];
    }
    BARRIER();
    max = maxima[0];
    for (int i = 1; i < SIMDGROUPS; i++) {
        max = larger(max, maxima[i]);
    }
    sum = 0;
    float value = 0;
    for (int i = 0; i < SIMDGROUPS; i++) {
        float weight = maxima[i] == -INFINITE ? 0.0f : expf(maxima[i] - max);
        sum += sums[i] * weight;
        value += weighted[i * MAX_D + THREAD] * weight;
    }
    if (THREAD < d) {
        y[at + THREAD] = last < 0 ? 0.0f : value / sum;
    }
    if (THREAD == 0) {
        lse[(i64)n * heads + head] = last < 0 ? -INFINITE : max + logf(sum);
    }
}

#define ATTENTION(name, T)                                                                                          \
    KERNEL(name, IN(float, q), IN(T, k), IN(T, v), IN(int, starts), IN(int, positions), IN(int, tables),            \
           OUT(float, y), OUT(float, lse), ARG(int, heads), ARG(int, kv_heads), ARG(int, d), ARG(int, sequences),   \
           ARG(int, table_width), ARG(int, block), ARG(int, window), ARG(float, scale)) {                           \
        SHARED(float, maxima, SIMDGROUPS);                                                                          \
        SHARED(float, sums, SIMDGROUPS);                                                                            \
        SHARED(float, weighted, SIMDGROUPS* MAX_D);                                                                 \
        attention<T>(q, k, v, starts, positions, tables, y, lse, heads, kv_heads, d, sequences, table_width, block, \
                     window, scale, maxima, sums, weighted);                                                        \
    }

ATTENTION(Attention_F32, f32)
ATTENTION(Attention_F16, f16)
ATTENTION(Attention_BF16, bf16)

// Gradients recompute p = exp(score - lse) and use dp - delta = dy . v - dy . y = dy . (v - y): one sum, nothing saved.

KERNEL(AttentionGradQuery, IN(float, q), IN(float, k), IN(float, v), IN(int, starts), IN(int, positions),
       IN(int, tables), IN(float, y), IN(float, lse), IN(float, dy), OUT(float, dq), ARG(int, heads),
       ARG(int, kv_heads), ARG(int, d), ARG(int, sequences), ARG(int, table_width), ARG(int, block), ARG(int, window),
       ARG(float, scale)) {
    SHARED(float, partial, SIMDGROUPS * MAX_D);
    int n = GROUP_X;
    int head = GROUP_Y;
    int kv_head = head / (heads / kv_heads);
    i64 at = ((i64)n * heads + head) * d;
    int s = sequence_of(starts, sequences, n);
    int last = s < 0 ? -1 : positions[n];
    int first = first_seen(window, last);
    GLOBAL const int* table = tables + (i64)s * table_width;
    float logsum = lse[(i64)n * heads + head];

    float query[PER_LANE];
    float value[PER_LANE];
    float upstream[PER_LANE];
    float sum[PER_LANE];
#pragma unroll
    for (int j = 0; j < PER_LANE; j++) {
        int e = LANE + j * SIMD;
        query[j] = e < d ? q[at + e] * scale : 0.0f;
        value[j] = e < d ? y[at + e] : 0.0f;
        upstream[j] = e < d ? dy[at + e] : 0.0f;
        sum[j] = 0;
    }
    for (int t = first + SIMDGROUP; t <= last; t += SIMDGROUPS) {
        i64 key = key_at(table, block, t, kv_heads, kv_head, d);
        float score = 0;
        float change = 0;
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            int e = LANE + j * SIMD;
            if (e < d) {
                score = multiply_add(query[j], k[key + e], score);
                change = multiply_add(upstream[j], v[key + e] - value[j], change);
            }
        }
        float ds = expf(simd_sum(score) - logsum) * simd_sum(change) * scale;
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            int e = LANE + j * SIMD;
            if (e < d) {
                sum[j] = multiply_add(ds, k[key + e], sum[j]);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < PER_LANE; j++) {
        partial[SIMDGROUP * MAX_D + LANE + j * SIMD] = sum[j];
    }
    BARRIER();
    if (THREAD < d) {
        float whole = 0;
        for (int i = 0; i < SIMDGROUPS; i++) {
            whole += partial[i * MAX_D + THREAD];
        }
        dq[at + THREAD] = whole;
    }
}

// One group for each key position that the tables have room for, and each key head: the only writer of that row. It
// writes nothing, and looks nothing up in the table, when no query of its sequence sees the position: the table may
// hold anything there. dk and dv were zeroed.
KERNEL(AttentionGradKeyValue, IN(float, q), IN(float, k), IN(float, v), IN(int, starts), IN(int, positions),
       IN(int, tables), IN(float, y), IN(float, lse), IN(float, dy), OUT(float, dk), OUT(float, dv), ARG(int, heads),
       ARG(int, kv_heads), ARG(int, d), ARG(int, table_width), ARG(int, block), ARG(int, window), ARG(float, scale)) {
    SHARED(float, partial_k, SIMDGROUPS * MAX_D);
    SHARED(float, partial_v, SIMDGROUPS * MAX_D);
    SHARED(float, scratch, SIMDGROUPS);
    i64 length = (i64)table_width * block;
    int s = (int)quotient(GROUP_X, length);
    int t = (int)(GROUP_X - s * length);
    int kv_head = GROUP_Y;
    int group = heads / kv_heads;
    GLOBAL const int* table = tables + (i64)s * table_width;

    float key[PER_LANE];
    float value[PER_LANE];
    float sum_k[PER_LANE];
    float sum_v[PER_LANE];
#pragma unroll
    for (int j = 0; j < PER_LANE; j++) {
        sum_k[j] = 0;
        sum_v[j] = 0;
    }
    bool seen = false;
    int end = starts[s + 1];
    for (int n = starts[s] + SIMDGROUP; n < end; n += SIMDGROUPS) {
        int position = positions[n];
        if (t > position || t < first_seen(window, position)) {
            continue;
        }
        if (!seen) {
            seen = true;
            i64 from = key_at(table, block, t, kv_heads, kv_head, d);
#pragma unroll
            for (int j = 0; j < PER_LANE; j++) {
                int e = LANE + j * SIMD;
                key[j] = e < d ? k[from + e] : 0.0f;
                value[j] = e < d ? v[from + e] : 0.0f;
            }
        }
        for (int head = kv_head * group; head < (kv_head + 1) * group; head++) {
            i64 line = (i64)n * heads + head;
            float query[PER_LANE];
            float upstream[PER_LANE];
            float score = 0;
            float change = 0;
#pragma unroll
            for (int j = 0; j < PER_LANE; j++) {
                int e = LANE + j * SIMD;
                if (e < d) {
                    query[j] = q[line * d + e];
                    upstream[j] = dy[line * d + e];
                    score = multiply_add(query[j] * scale, key[j], score);
                    change = multiply_add(upstream[j], value[j] - y[line * d + e], change);
                }
            }
            float p = expf(simd_sum(score) - lse[line]);
            float ds = p * simd_sum(change) * scale;
#pragma unroll
            for (int j = 0; j < PER_LANE; j++) {
                int e = LANE + j * SIMD;
                if (e < d) {
                    sum_k[j] = multiply_add(ds, query[j], sum_k[j]);
                    sum_v[j] = multiply_add(p, upstream[j], sum_v[j]);
                }
            }
        }
    }
#pragma unroll
    for (int j = 0; j < PER_LANE; j++) {
        partial_k[SIMDGROUP * MAX_D + LANE + j * SIMD] = sum_k[j];
        partial_v[SIMDGROUP * MAX_D + LANE + j * SIMD] = sum_v[j];
    }
    bool any = group_max(seen ? 1.0f : 0.0f, scratch) > 0;
    if (any && THREAD < d) {
        float whole_k = 0;
        float whole_v = 0;
        for (int i = 0; i < SIMDGROUPS; i++) {
            whole_k += partial_k[i * MAX_D + THREAD];
            whole_v += partial_v[i * MAX_D + THREAD];
        }
        i64 to = key_at(table, block, t, kv_heads, kv_head, d);
        dk[to + THREAD] = whole_k;
        dv[to + THREAD] = whole_v;
    }
}
