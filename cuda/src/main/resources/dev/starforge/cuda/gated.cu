// fn(gate) * up and its gradient, one thread for each element.

KERNEL(Gated, IN(float, gate), IN(float, up), OUT(float, y), ARG(i64, n), ARG(int, fn)) {
    i64 i = ELEMENT;
    if (i < n) {
        y[i] = apply(fn, gate[i]) * up[i];
    }
}

KERNEL(GatedGrad, IN(float, gate), IN(float, up), IN(float, dy), OUT(float, dgate), OUT(float, dup), ARG(i64, n),
       ARG(int, fn)) {
    i64 i = ELEMENT;
    if (i < n) {
        dgate[i] = slope(fn, gate[i]) * up[i] * dy[i];
        dup[i] = apply(fn, gate[i]) * dy[i];
    }
}
