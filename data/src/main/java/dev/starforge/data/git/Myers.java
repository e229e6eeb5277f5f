package dev.starforge.data.git;

import java.util.Arrays;

/**
 * Myers' O(ND) difference of two pieces, searched from both ends, with the shortcuts of git: lines that occur on one side
 * only, or too often between such lines, are set aside first, and a search that costs too much settles for a good split
 * instead of the best. {@link LineDiff} asks it for pieces in which every common line is frequent.
 */
final class Myers {
    private static final int MOST_EQUAL = 1024;
    private static final int WINDOW = 100;
    private static final int RUN = 4;
    private static final int SNAKE = 20;
    private static final int LEAST_COST = 256;
    private static final int GOOD = 4;

    private final int[] a;
    private final int[] b;
    private final int[] placesA;
    private final int[] placesB;
    private final boolean[] removed;
    private final boolean[] added;
    private final int[] forward;
    private final int[] backward;
    private final int shift;
    private final int mostCost;

    private int splitA;
    private int splitB;
    private boolean exactLow;
    private boolean exactHigh;

    Myers(int[] allA, int fromA, int toA, int[] allB, int fromB, int toB, boolean[] removed, boolean[] added) {
        this.removed = removed;
        this.added = added;
        int lengthA = toA - fromA;
        int lengthB = toB - fromB;
        int kinds = 0;
        for (int i = fromA; i < toA; i++) {
            kinds = Math.max(kinds, allA[i] + 1);
        }
        for (int i = fromB; i < toB; i++) {
            kinds = Math.max(kinds, allB[i] + 1);
        }
        int[] inA = counts(allA, fromA, toA, kinds);
        int[] inB = counts(allB, fromB, toB, kinds);
        int head = 0;
        int shorter = Math.min(lengthA, lengthB);
        while (head < shorter && allA[fromA + head] == allB[fromB + head]) {
            head++;
        }
        int tail = 0;
        while (tail < shorter - head && allA[toA - 1 - tail] == allB[toB - 1 - tail]) {
            tail++;
        }
        placesA = kept(allA, fromA + head, toA - tail, inB, limit(lengthA), removed);
        placesB = kept(allB, fromB + head, toB - tail, inA, limit(lengthB), added);
        a = values(allA, placesA);
        b = values(allB, placesB);
        int diagonals = a.length + b.length + 3;
        forward = new int[diagonals];
        backward = new int[diagonals];
        shift = b.length + 1;
        mostCost = Math.max(roughRoot(diagonals), LEAST_COST);
    }

    private static int[] counts(int[] lines, int from, int to, int kinds) {
        int[] counts = new int[kinds];
        for (int i = from; i < to; i++) {
            counts[lines[i]]++;
        }
        return counts;
    }

    private static int limit(int length) {
        return Math.min(roughRoot(length), MOST_EQUAL);
    }

    private static int roughRoot(int n) {
        int root = 1;
        for (; n > 0; n >>= 2) {
            root <<= 1;
        }
        return root;
    }

    /** The lines worth comparing; the others are marked as changed. */
    private static int[] kept(int[] lines, int from, int to, int[] onOtherSide, int limit, boolean[] changed) {
        byte[] matches = new byte[to - from];
        for (int i = from; i < to; i++) {
            int count = onOtherSide[lines[i]];
            matches[i - from] = (byte) (count == 0 ? 0 : count >= limit ? 2 : 1);
        }
        int[] places = new int[to - from];
        int size = 0;
        for (int i = 0; i < matches.length; i++) {
            if (matches[i] == 1 || matches[i] == 2 && !lostAmongUnmatched(matches, i)) {
                places[size++] = from + i;
            } else {
                changed[from + i] = true;
            }
        }
        return Arrays.copyOf(places, size);
    }

    private static boolean lostAmongUnmatched(byte[] matches, int at) {
        int[] before = run(matches, at, -1, Math.max(0, at - WINDOW));
        int[] after = run(matches, at, 1, Math.min(matches.length - 1, at + WINDOW));
        if (before[0] == 0 || after[0] == 0) {
            return false;
        }
        int unmatched = before[0] + after[0];
        int frequent = before[1] + after[1];
        return frequent * RUN < frequent + unmatched;
    }

    /** Lines without a match and frequent ones next to a line, up to the first ordinary one; the line itself is frequent. */
    private static int[] run(byte[] matches, int at, int step, int last) {
        int unmatched = 0;
        int frequent = 1;
        for (int i = at + step; step < 0 ? i >= last : i <= last; i += step) {
            if (matches[i] == 0) {
                unmatched++;
            } else if (matches[i] == 2) {
                frequent++;
            } else {
                break;
            }
        }
        return new int[] {unmatched, frequent};
    }

    private static int[] values(int[] lines, int[] places) {
        int[] values = new int[places.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = lines[places[i]];
        }
        return values;
    }

    void run() {
        compare(0, a.length, 0, b.length, false);
    }

    private void compare(int fromA, int toA, int fromB, int toB, boolean exact) {
        while (fromA < toA && fromB < toB && a[fromA] == b[fromB]) {
            fromA++;
            fromB++;
        }
        while (fromA < toA && fromB < toB && a[toA - 1] == b[toB - 1]) {
            toA--;
            toB--;
        }
        if (fromA == toA) {
            for (int j = fromB; j < toB; j++) {
                added[placesB[j]] = true;
            }
        } else if (fromB == toB) {
            for (int i = fromA; i < toA; i++) {
                removed[placesA[i]] = true;
            }
        } else {
            split(fromA, toA, fromB, toB, exact);
            int middleA = splitA;
            int middleB = splitB;
            boolean high = exactHigh;
            compare(fromA, middleA, fromB, middleB, exactLow);
            compare(middleA, toA, middleB, toB, high);
        }
    }

    /** Finds a place on a shortest path, or on a good one; diagonals are numbered i - j. */
    private void split(int fromA, int toA, int fromB, int toB, boolean exact) {
        int lowest = fromA - toB;
        int highest = toA - fromB;
        int middleF = fromA - fromB;
        int middleB = toA - toB;
        boolean odd = (middleF - middleB & 1) != 0;
        int minF = middleF;
        int maxF = middleF;
        int minB = middleB;
        int maxB = middleB;
        forward[shift + middleF] = fromA;
        backward[shift + middleB] = toA;
        for (int cost = 1; ; cost++) {
            boolean snake = false;
            if (minF > lowest) {
                forward[shift + --minF - 1] = -1;
            } else {
                ++minF;
            }
            if (maxF < highest) {
                forward[shift + ++maxF + 1] = -1;
            } else {
                --maxF;
            }
            for (int d = maxF; d >= minF; d -= 2) {
                int i = forward[shift + d - 1] >= forward[shift + d + 1]
                        ? forward[shift + d - 1] + 1
                        : forward[shift + d + 1];
                int begin = i;
                int j = i - d;
                while (i < toA && j < toB && a[i] == b[j]) {
                    i++;
                    j++;
                }
                snake |= i - begin > SNAKE;
                forward[shift + d] = i;
                if (odd && minB <= d && d <= maxB && backward[shift + d] <= i) {
                    answer(i, j, true, true);
                    return;
                }
            }
            if (minB > lowest) {
                backward[shift + --minB - 1] = Integer.MAX_VALUE;
            } else {
                ++minB;
            }
            if (maxB < highest) {
                backward[shift + ++maxB + 1] = Integer.MAX_VALUE;
            } else {
                --maxB;
            }
            for (int d = maxB; d >= minB; d -= 2) {
                int i = backward[shift + d - 1] < backward[shift + d + 1]
                        ? backward[shift + d - 1]
                        : backward[shift + d + 1] - 1;
                int begin = i;
                int j = i - d;
                while (i > fromA && j > fromB && a[i - 1] == b[j - 1]) {
                    i--;
                    j--;
                }
                snake |= begin - i > SNAKE;
                backward[shift + d] = i;
                if (!odd && minF <= d && d <= maxF && i <= forward[shift + d]) {
                    answer(i, j, true, true);
                    return;
                }
            }
            if (exact) {
                continue;
            }
            if (snake && cost > LEAST_COST) {
                if (goodForward(fromA, toA, fromB, toB, minF, maxF, middleF, cost)
                        || goodBackward(fromA, toA, fromB, toB, minB, maxB, middleB, cost)) {
                    return;
                }
            }
            if (cost >= mostCost) {
                farthest(fromA, toA, fromB, toB, minF, maxF, minB, maxB);
                return;
            }
        }
    }

    private void answer(int i, int j, boolean low, boolean high) {
        splitA = i;
        splitB = j;
        exactLow = low;
        exactHigh = high;
    }

    /** A path that has come far, and ends in a run of equal lines. */
    private boolean goodForward(int fromA, int toA, int fromB, int toB, int min, int max, int middle, int cost) {
        long best = 0;
        for (int d = max; d >= min; d -= 2) {
            int i = forward[shift + d];
            int j = i - d;
            long value = (long) (i - fromA) + (j - fromB) - Math.abs(d - middle);
            if (value > (long) GOOD * cost
                    && value > best
                    && fromA + SNAKE <= i
                    && i < toA
                    && fromB + SNAKE <= j
                    && j < toB) {
                for (int k = 1; a[i - k] == b[j - k]; k++) {
                    if (k == SNAKE) {
                        best = value;
                        answer(i, j, true, false);
                        break;
                    }
                }
            }
        }
        return best > 0;
    }

    private boolean goodBackward(int fromA, int toA, int fromB, int toB, int min, int max, int middle, int cost) {
        long best = 0;
        for (int d = max; d >= min; d -= 2) {
            int i = backward[shift + d];
            int j = i - d;
            long value = (long) (toA - i) + (toB - j) - Math.abs(d - middle);
            if (value > (long) GOOD * cost
                    && value > best
                    && fromA < i
                    && i <= toA - SNAKE
                    && fromB < j
                    && j <= toB - SNAKE) {
                for (int k = 0; a[i + k] == b[j + k]; k++) {
                    if (k == SNAKE - 1) {
                        best = value;
                        answer(i, j, false, true);
                        break;
                    }
                }
            }
        }
        return best > 0;
    }

    /** Enough is enough: the path that came farthest. */
    private void farthest(int fromA, int toA, int fromB, int toB, int minF, int maxF, int minB, int maxB) {
        long bestF = -1;
        int bestForward = -1;
        for (int d = maxF; d >= minF; d -= 2) {
            int i = Math.min(forward[shift + d], toA);
            int j = i - d;
            if (toB < j) {
                i = toB + d;
                j = toB;
            }
            if (bestF < (long) i + j) {
                bestF = (long) i + j;
                bestForward = i;
            }
        }
        long bestB = Long.MAX_VALUE;
        int bestBackward = Integer.MAX_VALUE;
        for (int d = maxB; d >= minB; d -= 2) {
            int i = Math.max(fromA, backward[shift + d]);
            int j = i - d;
            if (j < fromB) {
                i = fromB + d;
                j = fromB;
            }
            if ((long) i + j < bestB) {
                bestB = (long) i + j;
                bestBackward = i;
            }
        }
        if ((long) toA + toB - bestB < bestF - ((long) fromA + fromB)) {
            answer(bestForward, (int) (bestF - bestForward), true, false);
        } else {
            answer(bestBackward, (int) (bestB - bestBackward), false, true);
        }
    }
}
