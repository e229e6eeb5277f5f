// What moves or adds rows. Slices and concatenations are copies and need no kernel.

#define MAX_RANK 8

// Output dimensions, and for each the stride in the input.
struct Axes {
    i64 rank;
    i64 dims[MAX_RANK];
    i64 strides[MAX_RANK];
};

KERNEL(Permute, IN(float, x), OUT(float, y), ARG(i64, n), ARG(Axes, axes)) {
    i64 i = ELEMENT;
    if (i >= n) {
        return;
    }
    i64 rest = i;
    i64 source = 0;
    for (int axis = (int)axes.rank - 1; axis >= 0; axis--) {
        i64 above = quotient(rest, axes.dims[axis]);
        source += (rest - above * axes.dims[axis]) * axes.strides[axis];
        rest = above;
    }
    y[i] = x[source];
}

// One group for each row.
KERNEL(SumLast, IN(float, x), OUT(float, y), ARG(i64, width)) {
    SHARED(float, scratch, SIMDGROUPS);
    float sum = 0;
    for (i64 i = THREAD; i < width; i += GROUP) {
        sum += x[(i64)GROUP_X * width + i];
    }
    sum = group_sum(sum, scratch);
    if (THREAD == 0) {
        y[GROUP_X] = sum;
    }
}

// One group for SIMD columns.
KERNEL(SumLeading, IN(float, x), OUT(float, y), ARG(i64, rows), ARG(i64, width)) {
    SHARED(float, partial, GROUP);
    i64 i = (i64)GROUP_X * SIMD + LANE;
    float sum = 0;
    if (i < width) {
        for (i64 row = SIMDGROUP; row < rows; row += SIMDGROUPS) {
            sum += x[row * width + i];
        }
    }
    sum = column_sum(sum, partial);
    if (SIMDGROUP == 0 && i < width) {
        y[i] = sum;
    }
}

KERNEL(Pick, IN(float, x), IN(int, ids), OUT(float, y), ARG(i64, n), ARG(i64, width), ARG(i64, picks)) {
    i64 i = ELEMENT;
    if (i < n) {
        int id = ids[i];
        y[i] = id >= 0 && id < width ? x[quotient(i, picks) * width + id] : 0.0f;
    }
}

// One thread for each element of y, which asks every pick of its row, so that duplicates need no atomics.
KERNEL(Unpick, IN(float, d), IN(int, ids), OUT(float, y), ARG(i64, n), ARG(i64, width), ARG(i64, picks)) {
    i64 i = ELEMENT;
    if (i < n) {
        i64 row = quotient(i, width);
        float sum = 0;
        for (i64 pick = row * picks; pick < (row + 1) * picks; pick++) {
            if (ids[pick] == i - row * width) {
                sum += d[pick];
            }
        }
        y[i] = sum;
    }
}

KERNEL(Columns, IN(float, x), OUT(float, y), ARG(i64, n), ARG(i64, from), ARG(i64, x_width), ARG(i64, width)) {
    i64 i = ELEMENT;
    if (i < n) {
        i64 row = quotient(i, width);
        y[i] = x[row * x_width + from + (i - row * width)];
    }
}

KERNEL(Pad, IN(float, x), OUT(float, y), ARG(i64, n), ARG(i64, from), ARG(i64, x_width), ARG(i64, width)) {
    i64 i = ELEMENT;
    if (i < n) {
        i64 row = quotient(i, width);
        i64 column = i - row * width - from;
        y[i] = column >= 0 && column < x_width ? x[row * x_width + column] : 0.0f;
    }
}

// A row outside the table is the caller's error and cannot be thrown from here: it reads as NaN.
KERNEL(Gather, IN(void, table), IN(int, rows), OUT(float, y), ARG(i64, n), ARG(i64, width), ARG(i64, height),
       ARG(int, type)) {
    i64 i = ELEMENT;
    if (i < n) {
        i64 to = quotient(i, width);
        i64 from = rows[to];
        bool inside = from >= 0 && from < height;
        y[i] = inside ? load(table, type, from * width + (i - to * width)) : NOT_A_NUMBER;
    }
}

// Whether any of rows[from..to-1] is `row`; the same answer for the whole group.
FUNCTION bool named(GLOBAL const int* rows, i64 from, i64 to, int row, LOCAL float* scratch) {
    float count = 0;
    for (i64 i = from + THREAD; i < to; i += GROUP) {
        if (rows[i] == row) {
            count = 1;
        }
    }
    return group_max(count, scratch) > 0;
}

// A row of y has one group, which adds up all n that name it, in ascending order, and needs no atomics: with by_height
// there is a group for every row of y, otherwise one for every n, and the first that names a row is the row's. The list
// of who names it is made GROUP at a time, and y, which was zeroed, holds the sum so far.
KERNEL(ScatterAdd, IN(float, x), IN(int, rows), OUT(float, y), ARG(i64, count), ARG(i64, width), ARG(i64, height),
       ARG(int, by_height)) {
    SHARED(float, scratch, SIMDGROUPS);
    SHARED(int, counts, SIMDGROUPS);
    SHARED(int, naming, GROUP);
    i64 first = by_height ? 0 : GROUP_X;
    int row = by_height ? (int)GROUP_X : rows[first];
    if (row < 0 || row >= height || named(rows, 0, first, row, scratch)) {
        return;
    }
    for (i64 n0 = first; n0 < count; n0 += GROUP) {
        i64 n = n0 + THREAD;
        bool names = n < count && rows[n] == row;
        Place place = group_place(names, counts);
        if (place.total == 0) {
            continue;
        }
        if (names) {
            naming[place.before] = THREAD;
        }
        BARRIER();
        for (i64 i = THREAD; i < width; i += GROUP) {
            float sum = y[row * width + i];
            for (int j = 0; j < place.total; j++) {
                sum += x[(n0 + naming[j]) * width + i];
            }
            y[row * width + i] = sum;
        }
        BARRIER();
    }
}

// One group for each n; of several that name a row the last one writes it, as if they were stored in order.
KERNEL(Store, OUT(void, cache), IN(int, rows), IN(float, x), ARG(i64, count), ARG(i64, width), ARG(i64, height),
       ARG(int, type)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 n = GROUP_X;
    int row = rows[n];
    if (row < 0 || row >= height || named(rows, n + 1, count, row, scratch)) {
        return;
    }
    for (i64 i = THREAD; i < width; i += GROUP) {
        store(cache, type, row * width + i, x[n * width + i]);
    }
}
