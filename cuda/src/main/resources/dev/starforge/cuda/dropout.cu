// Dropout and noise. The random number of an element is a function of key, sample, position, site and channel.

// Word `channel % 4` of Philox4x32-10, its upper 24 bits as a fraction.
FUNCTION float uniform(GLOBAL const int* key, int sample, int position, int site, int channel) {
    unsigned c0 = (unsigned)channel / 4;
    unsigned c1 = (unsigned)position;
    unsigned c2 = (unsigned)sample;
    unsigned c3 = (unsigned)site;
    unsigned k0 = (unsigned)key[0];
    unsigned k1 = (unsigned)key[1];
    for (int round = 0; round < 10; round++) {
        unsigned n0 = high_product(0xCD9E8D57u, c2) ^ c1 ^ k0;
        unsigned n1 = 0xCD9E8D57u * c2;
        unsigned n2 = high_product(0xD2511F53u, c0) ^ c3 ^ k1;
        unsigned n3 = 0xD2511F53u * c0;
        c0 = n0;
        c1 = n1;
        c2 = n2;
        c3 = n3;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    int word = channel % 4;
    unsigned bits = word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
    return times((float)(bits >> 8), 0x1p-24f);
}

KERNEL(Dropout, IN(float, x), IN(int, samples), IN(int, positions), IN(int, key), OUT(float, y), ARG(i64, n),
       ARG(i64, width), ARG(int, site), ARG(float, rate), ARG(float, scale)) {
    i64 i = ELEMENT;
    if (i < n) {
        i64 row = quotient(i, width);
        float u = uniform(key, samples[row], positions[row], site, (int)(i - row * width));
        y[i] = u >= rate ? times(x[i], scale) : 0.0f;
    }
}

KERNEL(Noise, IN(float, x), IN(int, samples), IN(int, positions), IN(int, key), IN(float, magnitudes), OUT(float, y),
       ARG(i64, n), ARG(i64, width), ARG(int, site)) {
    i64 i = ELEMENT;
    if (i < n) {
        i64 row = quotient(i, width);
        float u = uniform(key, samples[row], positions[row], site, (int)(i - row * width));
        y[i] = plus(x[i], times(magnitudes[row], plus(times(2.0f, u), -1.0f)));
    }
}
