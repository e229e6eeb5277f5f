// Cross-entropy over the vocabulary, one group for each token. A label outside it has logit 0 and no one-hot.

KERNEL(CrossEntropy, IN(float, logits), IN(int, labels), IN(float, weights), OUT(float, losses), OUT(float, lse),
       ARG(i64, width)) {
    SHARED(float, scratch, SIMDGROUPS);
    i64 row = GROUP_X;
    float sum = row_lse(logits + row * width, width, scratch);
    if (THREAD == 0) {
        int label = labels[row];
        float target = label >= 0 && label < width ? logits[row * width + label] : 0.0f;
        losses[row] = weights[row] * (sum - target);
        lse[row] = sum;
    }
}

KERNEL(CrossEntropyGrad, IN(float, logits), IN(int, labels), IN(float, weights), IN(float, lse), IN(float, dlosses),
       OUT(float, dlogits), ARG(i64, width)) {
    i64 row = GROUP_X;
    float scale = weights[row] * dlosses[row];
    int label = labels[row];
    float sum = lse[row];
    for (i64 i = THREAD; i < width; i += GROUP) {
        float p = expf(logits[row * width + i] - sum);
        dlogits[row * width + i] = scale * (p - (i == label ? 1.0f : 0.0f));
    }
}
