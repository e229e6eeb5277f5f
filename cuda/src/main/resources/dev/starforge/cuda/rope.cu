// Rotary positions. x[N, H, D]; one thread for each pair (i, i + half) of a head and for each dimension behind the
// pairs. The angle is a float32 product by definition.

KERNEL(Rope, IN(float, x), IN(int, positions), IN(float, frequencies), OUT(float, y), ARG(i64, n), ARG(int, heads),
       ARG(int, d), ARG(int, half), ARG(float, magnitude), ARG(int, inverse)) {
    i64 work = ELEMENT; // n = N * H * (D - half)
    if (work >= n) {
        return;
    }
    int each = d - half;
    i64 head = quotient(work, each);
    int i = (int)(work - head * each);
    i64 at = head * d;
    if (i >= half) {
        y[at + half + i] = x[at + half + i];
        return;
    }
    float angle = (float)positions[quotient(head, heads)] * frequencies[i];
    float c = magnitude * cosf(angle);
    float s = magnitude * sinf(angle);
    s = inverse ? -s : s;
    float x1 = x[at + i];
    float x2 = x[at + half + i];
    y[at + i] = x1 * c - x2 * s;
    y[at + half + i] = x2 * c + x1 * s;
}
