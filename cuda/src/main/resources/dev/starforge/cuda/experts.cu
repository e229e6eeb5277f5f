// What mixtures of experts need: choosing, sorting, and each expert's own product. How many rows an expert has is known
// to the device alone, so launches are as large as the shapes could need, and groups with nothing to do return.

#define MAX_ROUTE_GROUPS 1024

// The order of preference: the higher value, among equals the lower index, NaN last.
template <typename T> FUNCTION bool preferred(T a, int i, T b, int j) {
    bool lost = a != a;
    bool won = b != b;
    return lost || won ? (lost == won ? i < j : won) : a > b || (a == b && i < j);
}

// The sum of the highest `votes` of x, from the highest on; NaN when any of x is.
FUNCTION wide vote(GLOBAL const float* x, int count, int votes) {
    wide sum = 0;
    int last = -1;
    for (int turn = 0; turn < votes; turn++) {
        int best = -1;
        for (int i = 0; i < count; i++) {
            if (x[i] != x[i]) {
                return NOT_A_NUMBER;
            }
            bool left = last < 0 || preferred<float>(x[last], last, x[i], i);
            if (left && (best < 0 || preferred<float>(x[i], i, x[best], best))) {
                best = i;
            }
        }
        sum += x[best];
        last = best;
    }
    return sum;
}

// One group for each token. A group of experts, and then an expert, is chosen if few enough are preferred to it.
KERNEL(Route, IN(float, scores), OUT(int, chosen), ARG(int, experts), ARG(int, k), ARG(int, groups), ARG(int, kept),
       ARG(int, votes)) {
    SHARED(wide, sums, MAX_ROUTE_GROUPS);
    SHARED(int, open, MAX_ROUTE_GROUPS);
    GLOBAL const float* row = scores + (i64)GROUP_X * experts;
    int each = experts / groups;
    for (int g = THREAD; g < groups; g += GROUP) {
        sums[g] = kept < groups ? vote(row + g * each, each, votes) : (wide)0;
    }
    BARRIER();
    for (int g = THREAD; g < groups; g += GROUP) {
        int place = 0;
        for (int other = 0; other < groups; other++) {
            place += preferred<wide>(sums[other], other, sums[g], g) ? 1 : 0;
        }
        open[g] = place < kept;
    }
    BARRIER();
    for (int e = THREAD; e < experts; e += GROUP) {
        if (!open[e / each]) {
            continue;
        }
        float score = row[e];
        int place = 0;
        for (int g = 0; g < groups; g++) {
            for (int other = g * each; open[g] && other < (g + 1) * each; other++) {
                place += preferred<float>(row[other], other, score, e) ? 1 : 0;
            }
        }
        if (place < k) {
            chosen[(i64)GROUP_X * k + place] = e;
        }
    }
}

// One group for each expert and one for the end: it counts the choices of lower experts, which is where its own begin,
// and then puts its own there, GROUP at a time. A choice of no expert is left out.
KERNEL(Group, IN(int, experts), OUT(int, order), OUT(int, tokens), OUT(int, offsets), ARG(int, n), ARG(int, k)) {
    SHARED(int, counts, SIMDGROUPS);
    int expert = GROUP_X;
    int end = GROUPS_X - 1;
    int at = 0;
    for (i64 i = THREAD; i - THREAD < n; i += GROUP) {
        at += group_place(i < n && experts[i] >= 0 && experts[i] < expert, counts).total;
    }
    if (THREAD == 0) {
        offsets[expert] = at;
    }
    for (i64 i = THREAD; i - THREAD < n && expert < end; i += GROUP) {
        bool mine = i < n && experts[i] == expert;
        Place place = group_place(mine, counts);
        if (mine) {
            order[at + place.before] = (int)i;
            tokens[at + place.before] = (int)i / k;
        }
        at += place.total;
    }
}

// A tile of an expert's rows: its first row and how many rows the expert has, counted from the expert's first.
struct Piece {
    int expert;
    int row0;
    int rows;
};

// With by_row there is a slot for every row, and one that does not begin a tile is empty. Otherwise the tiles of expert
// e begin at slot offsets[e] / tile + e: rounding down loses less than the one slot that is added for each expert, so
// that no two overlap and rows / tile + experts slots are enough, whatever the offsets.
FUNCTION int first_slot(GLOBAL const int* offsets, int expert, int tile, int by_row) {
    return by_row ? offsets[expert] : offsets[expert] / tile + expert;
}

// What the group is to compute; nothing if row0 is not below rows.
FUNCTION Piece piece_of(GLOBAL const int* offsets, int experts, int tile, int by_row) {
    int slot = GROUP_Y;
    int low = 0;
    int high = experts;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (first_slot(offsets, middle, tile, by_row) <= slot) {
            low = middle;
        } else {
            high = middle;
        }
    }
    int within = slot - first_slot(offsets, low, tile, by_row);
    int rows = offsets[low + 1] - offsets[low];
    int row0 = by_row ? within : within * tile;
    Piece piece = {low, row0 % tile == 0 ? row0 : rows, rows};
    return piece;
}

template <typename T>
FUNCTION void expert_matmul(GLOBAL const float* x, GLOBAL const T* w, GLOBAL const int* offsets, GLOBAL float* y,
                            int experts, int columns, int terms, int by_row, int transpose_b, LOCAL float* as,
                            LOCAL float* bs) {
    Piece piece = piece_of(offsets, experts, TILE, by_row);
    if (piece.row0 < piece.rows) {
        i64 first = offsets[piece.expert];
        tile_product<T>(x + first * terms, w + (i64)piece.expert * terms * columns, y + first * columns, piece.row0,
                        piece.rows, GROUP_X * TILE, columns, terms, 0, transpose_b, as, bs);
    }
}

#define EXPERT_MATMUL(name, T)                                                                                      \
    KERNEL(name, IN(float, x), IN(T, w), IN(int, offsets), OUT(float, y), ARG(int, experts), ARG(int, columns),     \
           ARG(int, terms), ARG(int, by_row), ARG(int, transpose_b)) {                                              \
        SHARED(float, as, STEP* PITCH);                                                                             \
        SHARED(float, bs, STEP* PITCH);                                                                             \
        expert_matmul<T>(x, w, offsets, y, experts, columns, terms, by_row, transpose_b, as, bs);                   \
    }

EXPERT_MATMUL(ExpertMatMul_F32, f32)
EXPERT_MATMUL(ExpertMatMul_F16, f16)
EXPERT_MATMUL(ExpertMatMul_BF16, bf16)

template <typename T>
FUNCTION void expert_matmul_few(GLOBAL const float* x, GLOBAL const T* w, GLOBAL const int* offsets, GLOBAL float* y,
                                int experts, int columns, int terms, int by_row, LOCAL float* as, LOCAL float* bs) {
    Piece piece = piece_of(offsets, experts, FEW, by_row);
    if (piece.row0 < piece.rows) {
        i64 first = offsets[piece.expert];
        few_product<T>(x + first * terms, w + (i64)piece.expert * terms * columns, y + first * columns, piece.row0,
                       piece.rows, columns, terms, as, bs);
    }
}

#define EXPERT_MATMUL_FEW(name, T)                                                                                  \
    KERNEL(name, IN(float, x), IN(T, w), IN(int, offsets), OUT(float, y), ARG(int, experts), ARG(int, columns),     \
           ARG(int, terms), ARG(int, by_row)) {                                                                     \
        SHARED(float, as, GROUP * (SLAB + 1));                                                                      \
        SHARED(float, bs, GROUP * (SLAB + 1));                                                                      \
        expert_matmul_few<T>(x, w, offsets, y, experts, columns, terms, by_row, as, bs);                            \
    }

EXPERT_MATMUL_FEW(ExpertMatMulFew_F32, f32)
EXPERT_MATMUL_FEW(ExpertMatMulFew_F16, f16)
EXPERT_MATMUL_FEW(ExpertMatMulFew_BF16, bf16)

// a^T b of each expert's rows, which are the terms of its sums.
KERNEL(ExpertOuter, IN(float, a), IN(float, b), IN(int, offsets), OUT(float, y), ARG(int, experts), ARG(int, rows),
       ARG(int, columns)) {
    SHARED(float, as, STEP* PITCH);
    SHARED(float, bs, STEP* PITCH);
    for (int e = GROUP_Z; e < experts; e += GROUPS_Z) {
        i64 first = offsets[e];
        tile_product<float>(a + first * rows, b + first * columns, y + (i64)e * rows * columns, GROUP_Y * TILE, rows,
                            GROUP_X * TILE, columns, offsets[e + 1] - offsets[e], 1, 0, as, bs);
    }
}
