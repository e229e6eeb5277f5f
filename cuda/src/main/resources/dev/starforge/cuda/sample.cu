// The next token of each row, one group to a row. Weights are whole numbers of 2^-40, so that sums over the group are
// exact in any order and every backend draws the same token; the rest is one float32 operation at a time.
//
// Nothing is stored between passes over a row: whether a token is still possible follows from a few thresholds, and a
// threshold is found bit by bit, from the highest, each bit by one pass.

#define NO_HISTORY (-1)
#define NEVER (-1)
#define NO_TOKEN (-1)

// The columns of a row's settings.
#define REPETITION_PENALTY 0
#define PRESENCE_PENALTY 1
#define FREQUENCY_PENALTY 2
#define TEMPERATURE 3
#define TOP_K 4
#define TAIL 5
#define MIN_P 6
#define TYPICAL_P 7
#define SETTINGS 8

#define SITE 0x73616d70u
#define DRAW_BITS 24
#define ID_BITS 23

// What a row is made of; uses is only read where there is history.
struct Row {
    GLOBAL const float* logits;
    GLOBAL const float* settings;
    GLOBAL const int* uses;
    GLOBAL const int* biased;
    GLOBAL const float* bias;
    GLOBAL const int* allowed;
    int vocabulary;
    int biases;
    int words;
    bool history;
};

// What is still possible: a key of the score of at least `least`, above `border` or equal to it from id `first` on, a
// weight of at least `lightest`, a surprise of at most `oddest`.
struct Chain {
    float best;
    float temperature;
    unsigned least;
    unsigned border;
    int first;
    i64 lightest;
    float mean;
    float oddest;
};

FUNCTION i64 group_total(i64 x, LOCAL i64* scratch) {
    scratch[THREAD] = x;
    BARRIER();
    for (int half = GROUP / 2; half > 0; half /= 2) {
        if (THREAD < half) {
            scratch[THREAD] += scratch[THREAD + half];
        }
        BARRIER();
    }
    i64 total = scratch[0];
    BARRIER();
    return total;
}

FUNCTION i64 group_most(i64 x, LOCAL i64* scratch) {
    scratch[THREAD] = x;
    BARRIER();
    for (int half = GROUP / 2; half > 0; half /= 2) {
        if (THREAD < half && scratch[THREAD + half] > scratch[THREAD]) {
            scratch[THREAD] = scratch[THREAD + half];
        }
        BARRIER();
    }
    i64 most = scratch[0];
    BARRIER();
    return most;
}

FUNCTION float score(Row row, int id) {
    float x = row.logits[id];
    for (int i = 0; i < row.biases; i++) {
        x = row.biased[i] == id ? plus(x, row.bias[i]) : x;
    }
    if (row.history && row.uses[id] != NEVER) {
        float repetition = row.settings[REPETITION_PENALTY];
        x = x < 0.0f ? times(x, repetition) : x / repetition;
        float penalty = plus(row.settings[PRESENCE_PENALTY], times((float)row.uses[id], row.settings[FREQUENCY_PENALTY]));
        x = row.uses[id] > 0 ? plus(x, -penalty) : x;
    }
    return row.words > 0 && ((unsigned)row.allowed[id / 32] >> id % 32 & 1u) == 0u ? -INFINITE : x;
}

// Orders floats as whole numbers; -0 is 0.
FUNCTION unsigned key(float x) {
    unsigned bits = as_bits(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// Orders tokens by value and, among equals, the lower id above.
FUNCTION i64 rank(float x, int id) {
    return (i64)(((unsigned long long)(key(x) ^ 0x80000000u) << 32) | (unsigned)~id);
}

FUNCTION int ranked(i64 rank) {
    return (int)~(unsigned)rank;
}

FUNCTION float power(int exponent) {
    return as_float((unsigned)(exponent + 127) << 23);
}

// exp(x) of x at most 0, the same bits as on the host.
FUNCTION float exp_fixed(float x) {
    float v = x < -104.0f ? -104.0f : x;
    float shifted = multiply_add(v, 1.44269504f, 0x1.8p23f);
    float whole = shifted - 0x1.8p23f;
    float r = multiply_add(whole, -0x1.7f7d1cp-20f, multiply_add(whole, -0x1.62e4p-1f, v));
    float p = multiply_add(1.0f / 5040, r, 1.0f / 720);
    p = multiply_add(p, r, 1.0f / 120);
    p = multiply_add(p, r, 1.0f / 24);
    p = multiply_add(p, r, 1.0f / 6);
    p = multiply_add(p, r, 0.5f);
    p = multiply_add(p, r, 1.0f);
    p = multiply_add(p, r, 1.0f);
    int exponent = (int)(as_bits(shifted) - as_bits(0x1.8p23f));
    int half = exponent >> 1;
    return times(times(p, power(half)), power(exponent - half));
}

FUNCTION i64 fixed(float part) {
    return (i64)times(part, 0x1p40f);
}

FUNCTION float distance_of(Chain chain, float x) {
    return plus(x, -chain.best) / chain.temperature;
}

FUNCTION float surprise(Chain chain, float z) {
    float d = plus(z, -chain.mean);
    return d < 0.0f ? -d : d;
}

FUNCTION i64 weight(Chain chain, float x, int id) {
    unsigned k = key(x);
    if (k < chain.least || k < chain.border || (k == chain.border && id < chain.first)) {
        return 0;
    }
    float z = distance_of(chain, x);
    i64 w = fixed(exp_fixed(z));
    return w < chain.lightest || surprise(chain, z) > chain.oddest ? 0 : w;
}

FUNCTION i64 total(Row row, Chain chain, LOCAL i64* scratch) {
    i64 sum = 0;
    for (int id = THREAD; id < row.vocabulary; id += GROUP) {
        sum += weight(chain, score(row, id), id);
    }
    return group_total(sum, scratch);
}

FUNCTION float share(i64 part, i64 whole) {
    return (float)part / (float)whole;
}

// The least weight that leaves out at most `tail`, or else has `mass`; at least 1.
FUNCTION i64 needed(bool leaving, float limit, i64 whole) {
    i64 low = 1;
    i64 high = whole;
    while (low < high) {
        i64 middle = (low + high) >> 1;
        if (leaving ? share(whole - middle, whole) <= limit : share(middle, whole) >= limit) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

#define BY_COUNT 0
#define BY_SCORE 1
#define BY_SURPRISE 2

// The highest key such that tokens with it and above have the weight `want`: of scores, each counting 1 or its weight,
// or of surprises, where the lowest come first.
FUNCTION unsigned threshold(Row row, Chain chain, int by, i64 want, LOCAL i64* scratch) {
    unsigned found = 0;
    for (int bit = 31; bit >= 0; bit--) {
        unsigned probe = found | 1u << bit;
        i64 sum = 0;
        for (int id = THREAD; id < row.vocabulary; id += GROUP) {
            float x = score(row, id);
            unsigned k = by == BY_SURPRISE ? key(-surprise(chain, distance_of(chain, x))) : key(x);
            sum += k < probe ? 0 : by == BY_COUNT ? 1 : weight(chain, x, id);
        }
        if (group_total(sum, scratch) >= want) {
            found = probe;
        }
    }
    return found;
}

// Sets the border of top-p, and from which id on tokens that lie on it are kept.
FUNCTION Chain keep_top_p(Row row, Chain chain, float tail, LOCAL i64* scratch) {
    i64 want = needed(true, tail, total(row, chain, scratch));
    unsigned border = threshold(row, chain, BY_SCORE, want, scratch);
    i64 above = 0;
    i64 on = 0;
    i64 count = 0;
    for (int id = THREAD; id < row.vocabulary; id += GROUP) {
        float x = score(row, id);
        above += key(x) > border ? weight(chain, x, id) : 0;
        on += key(x) == border ? weight(chain, x, id) : 0;
        count += key(x) == border ? 1 : 0;
    }
    above = group_total(above, scratch);
    on = group_total(on, scratch);
    count = group_total(count, scratch);
    i64 each = on / count;
    i64 kept = (want - above + each - 1) / each;
    int first = 0;
    for (int bit = ID_BITS - 1; bit >= 0; bit--) {
        int probe = first | 1 << bit;
        i64 equals = 0;
        for (int id = THREAD; id < row.vocabulary; id += GROUP) {
            equals += id >= probe && key(score(row, id)) == border ? 1 : 0;
        }
        if (group_total(equals, scratch) >= kept) {
            first = probe;
        }
    }
    chain.border = border;
    chain.first = first;
    return chain;
}

FUNCTION Chain keep_typical(Row row, Chain chain, float mass, LOCAL i64* scratch) {
    i64 moment = 0;
    for (int id = THREAD; id < row.vocabulary; id += GROUP) {
        float x = score(row, id);
        i64 w = weight(chain, x, id);
        moment += w == 0 ? 0 : (i64)times((float)w, distance_of(chain, x));
    }
    i64 whole = total(row, chain, scratch);
    chain.mean = share(group_total(moment, scratch), whole);
    unsigned least = threshold(row, chain, BY_SURPRISE, needed(false, mass, whole), scratch);
    chain.oddest = as_float((least >> 31 ? least & 0x7fffffffu : ~least) & 0x7fffffffu); // the key is of its negative
    return chain;
}

// The first id whose cumulative weight is above the draw: the most tokens, bit by bit, that are not.
FUNCTION int draw(Row row, Chain chain, GLOBAL const int* draws, LOCAL i64* scratch) {
    unsigned bits = philox((unsigned)draws[2], 0u, SITE, 1u, (unsigned)draws[0], (unsigned)draws[1], 0);
    i64 u = bits >> (32 - DRAW_BITS);
    i64 whole = total(row, chain, scratch);
    i64 low = whole & ((1 << DRAW_BITS) - 1);
    i64 left = (whole >> DRAW_BITS) * u + (low * u >> DRAW_BITS);
    int token = 0;
    for (int bit = ID_BITS - 1; bit >= 0; bit--) {
        int probe = token + (1 << bit);
        i64 sum = 0;
        for (int id = token + THREAD; id < probe && id < row.vocabulary; id += GROUP) {
            sum += weight(chain, score(row, id), id);
        }
        sum = group_total(sum, scratch);
        if (sum <= left) {
            left -= sum;
            token = probe;
        }
    }
    return token;
}

FUNCTION int choose(Row row, GLOBAL const int* draws, LOCAL i64* scratch) {
    i64 most = rank(-INFINITE, row.vocabulary);
    i64 broken = 0;
    for (int id = THREAD; id < row.vocabulary; id += GROUP) {
        float x = score(row, id);
        bool fine = x < INFINITE && row.logits[id] < INFINITE;
        broken += fine ? 0 : 1;
        i64 r = fine ? rank(x, id) : most;
        most = r > most ? r : most;
    }
    int best = ranked(group_most(most, scratch));
    if (group_total(broken, scratch) > 0 || best == row.vocabulary || score(row, best) == -INFINITE) {
        return NO_TOKEN;
    }
    Chain chain = {score(row, best), row.settings[TEMPERATURE], 0u, 0u, 0, 0, 0.0f, INFINITE};
    if (!(chain.temperature > 0.0f)) {
        return best;
    }
    int k = (int)row.settings[TOP_K];
    if (k > 0 && k < row.vocabulary) {
        chain.least = threshold(row, chain, BY_COUNT, k, scratch);
    }
    if (row.settings[TAIL] > 0.0f) {
        chain = keep_top_p(row, chain, row.settings[TAIL], scratch);
    }
    chain.lightest = fixed(row.settings[MIN_P]);
    if (row.settings[TYPICAL_P] < 1.0f) {
        chain = keep_typical(row, chain, row.settings[TYPICAL_P], scratch);
    }
    return draw(row, chain, draws, scratch);
}

KERNEL(Sample, IN(float, logits), IN(float, settings), IN(int, draws), IN(int, slots), OUT(int, uses), IN(int, biased),
       IN(float, bias), IN(int, allowed), OUT(int, token), OUT(float, log_probability), OUT(int, ids),
       OUT(float, log_probabilities), ARG(int, vocabulary), ARG(int, biases), ARG(int, words), ARG(int, top)) {
    SHARED(i64, scratch, GROUP);
    SHARED(float, sums, SIMDGROUPS);
    i64 n = GROUP_X;
    int slot = slots[n];
    GLOBAL int* used = uses + (slot >= 0 ? (i64)slot * vocabulary : 0);
    Row row = {logits + n * vocabulary,
               settings + n * SETTINGS,
               used,
               biased + n * biases,
               bias + n * biases,
               allowed + n * words,
               vocabulary,
               biases,
               words,
               slot >= 0};
    int chosen = slot < NO_HISTORY ? NO_TOKEN : choose(row, draws + 3 * n, scratch);
    float lse = chosen < 0 ? 0.0f : row_lse(row.logits, vocabulary, sums);
    i64 last = rank(INFINITE, -1);
    for (int i = 0; i < top; i++) {
        i64 most = rank(-INFINITE, vocabulary);
        for (int id = THREAD; id < vocabulary; id += GROUP) {
            i64 r = rank(row.logits[id], id);
            most = r > most && r < last ? r : most;
        }
        last = group_most(most, scratch);
        if (THREAD == 0) {
            ids[n * top + i] = chosen < 0 ? NO_TOKEN : ranked(last);
            log_probabilities[n * top + i] = chosen < 0 ? 0.0f : row.logits[ranked(last)] - lse;
        }
    }
    if (THREAD == 0) {
        token[n] = chosen;
        log_probability[n] = chosen < 0 ? 0.0f : row.logits[chosen] - lse;
        if (chosen >= 0 && slot >= 0) {
            used[chosen] = (used[chosen] > 0 ? used[chosen] : 0) + 1;
        }
    }
}
