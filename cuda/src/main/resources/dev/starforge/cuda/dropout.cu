// Dropout and noise. The random number of an element is a function of key, sample, position, site and channel.

// Word `channel % 4` of Philox, its upper 24 bits as a fraction.
FUNCTION float uniform(GLOBAL const int* key, int sample, int position, int site, int channel) {
    unsigned bits = philox((unsigned)channel / 4, (unsigned)position, (unsigned)sample, (unsigned)site, (unsigned)key[0],
                           (unsigned)key[1], channel % 4);
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
