// One thread for each element. broadcast: 0 the same shape, 1 b is one row of `inner` for all, 2 one b for each row of
// `inner` elements.

FUNCTION i64 partner(int broadcast, i64 i, i64 inner) {
    return broadcast == 0 ? i : broadcast == 1 ? remainder_of(i, inner) : quotient(i, inner);
}

KERNEL(Add, IN(float, a), IN(float, b), OUT(float, y), ARG(i64, n), ARG(int, broadcast), ARG(i64, inner)) {
    i64 i = ELEMENT;
    if (i < n) {
        y[i] = a[i] + b[partner(broadcast, i, inner)];
    }
}

KERNEL(Mul, IN(float, a), IN(float, b), OUT(float, y), ARG(i64, n), ARG(int, broadcast), ARG(i64, inner)) {
    i64 i = ELEMENT;
    if (i < n) {
        y[i] = a[i] * b[partner(broadcast, i, inner)];
    }
}

KERNEL(Affine, IN(float, x), OUT(float, y), ARG(i64, n), ARG(float, scale), ARG(float, shift)) {
    i64 i = ELEMENT;
    if (i < n) {
        y[i] = multiply_add(scale, x[i], shift);
    }
}

KERNEL(Map, IN(float, x), OUT(float, y), ARG(i64, n), ARG(int, fn)) {
    i64 i = ELEMENT;
    if (i < n) {
        y[i] = apply(fn, x[i]);
    }
}

KERNEL(MapGrad, IN(float, x), IN(float, dy), OUT(float, dx), ARG(i64, n), ARG(int, fn)) {
    i64 i = ELEMENT;
    if (i < n) {
        dx[i] = slope(fn, x[i]) * dy[i];
    }
}

KERNEL(Cast, IN(void, x), OUT(void, y), ARG(i64, n), ARG(int, from), ARG(int, to)) {
    i64 i = ELEMENT;
    if (i < n) {
        store(y, to, i, load(x, from, i));
    }
}

KERNEL(Fill, OUT(float, y), ARG(i64, n), ARG(float, value)) {
    i64 i = ELEMENT;
    if (i < n) {
        y[i] = value;
    }
}
