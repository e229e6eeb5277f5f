package dev.starforge.model.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.KvCacheSpec;
import dev.starforge.model.kv.BlockPool.BlockCopy;
import dev.starforge.model.kv.BlockPool.BlockPoolStats;
import dev.starforge.model.kv.BlockPool.BlockTable;
import dev.starforge.model.kv.BlockPool.SlotAllocation;
import dev.starforge.tensor.DType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Random operations against a model that is too simple to be wrong: each sequence's tokens, and one int for each physical
 * row. What is written there stands for keys and values, which depend on the root and on every token up to theirs: a number
 * for each such prefix. Whatever the pool does, reading through a table must give the numbers of the sequence's own
 * prefixes. Three tokens and few blocks, so that texts meet and part again and memory is always short.
 */
class BlockPoolPropertyTest {
    private static final int BLOCKS = 20;
    private static final List<PrefixRoot> ROOTS = List.of(
            new PrefixRoot("", 0, DType.F16, ""),
            new PrefixRoot("adapter", 0, DType.F16, ""),
            new PrefixRoot("", 1, DType.F16, ""),
            new PrefixRoot("", 0, DType.BF16, ""),
            new PrefixRoot("", 0, DType.F16, "tenant"));

    /** A sequence as it should be: its tokens, and the number of each of their prefixes. */
    private final class Oracle {
        final int root;
        final BlockTable sequence;
        final List<Integer> tokens = new ArrayList<>();
        final List<Integer> values = new ArrayList<>();

        Oracle(int root, BlockTable sequence, List<Integer> tokens) {
            this.root = root;
            this.sequence = sequence;
            tokens.forEach(this::add);
        }

        void add(int token) {
            int before = values.isEmpty() ? -1 - root : values.getLast();
            tokens.add(token);
            values.add(prefixes.computeIfAbsent(new Prefix(before, token), _ -> prefixes.size() + 1));
        }

        void truncate(int to) {
            tokens.subList(to, tokens.size()).clear();
            values.subList(to, values.size()).clear();
        }
    }

    /** Numbered as they come, so that numbers are equal only for equal roots and equal tokens. */
    private record Prefix(int before, int token) {}

    private final Map<Prefix, Integer> prefixes = new HashMap<>();
    private final Map<String, Integer> seen = new TreeMap<>();
    private final List<Oracle> open = new ArrayList<>();
    private final List<int[]> texts = new ArrayList<>();
    private Random random = new Random();
    private BlockPool pool = new BlockPool(1, 1, List.of(new KvCacheSpec(1, 1, 0, false)));
    private int[] rows = {};
    private int blockSize;
    private int window;

    @ParameterizedTest
    @CsvSource({"4, 0, 1", "4, 6, 2", "1, 3, 3", "3, 1, 4"})
    void everySequenceReadsItsOwnTokens(int blockSize, int window, int seed) {
        this.blockSize = blockSize;
        this.window = window;
        random = new Random(seed);
        pool = new BlockPool(BLOCKS, blockSize, List.of(new KvCacheSpec(1, 1, window, false)));
        rows = new int[BLOCKS * blockSize];
        int[] text = random.ints(8 * blockSize, 0, 3).toArray();
        for (int common = 2; common < 5; common++) {
            int[] other = random.ints(text.length, 0, 3).toArray();
            System.arraycopy(text, 0, other, 0, common * blockSize);
            texts.add(other);
        }
        for (int i = 0; i < 25_000; i++) {
            operate();
            for (Oracle each : open) {
                readsItsOwnTokens(each);
            }
            Invariants.check(pool, open.stream().map(each -> each.sequence).toList());
        }
        List<String> expected = new ArrayList<>(
                List.of("fork", "truncate", "publish", "close", "step", "exhausted", "hit", "evicted", "shared block"));
        expected.addAll(blockSize > 1 ? List.of("copy", "kept in place") : List.of());
        expected.addAll(window > 0 ? List.of("release", "refused") : List.of());
        assertThat(seen.keySet()).containsAll(expected);
        assertThat(seen.values()).allMatch(count -> count >= 5, "each of " + seen + " often enough");
    }

    private void operate() {
        int kind = random.nextInt(20);
        if (open.isEmpty() || kind < 3 && open.size() < 8) {
            open();
            return;
        }
        Oracle one = open.get(random.nextInt(open.size()));
        if (kind < 10) {
            step();
        } else if (kind < 12) {
            fork(one);
        } else if (kind < 14) {
            truncate(one);
        } else if (kind < 17) {
            publish(one);
        } else if (kind < 18) {
            release(one);
        } else {
            close(one);
        }
    }

    private void open() {
        int[] text = texts.get(random.nextInt(texts.size()));
        int[] prompt = Arrays.copyOf(text, random.nextInt(text.length + 1));
        int compute = Math.min(prompt.length, random.nextInt(3));
        int root = random.nextInt(ROOTS.size());
        long hits = pool.stats().hits();
        BlockTable sequence = pool.open(ROOTS.get(root), prompt, compute);
        int found = sequence.length();
        assertThat(found % blockSize).isZero();
        assertThat(found).isBetween(0, prompt.length - compute);
        assertThat(pool.stats().hits() - hits).isEqualTo(found);
        saw("hit", found > 0);
        Oracle opened = new Oracle(root, sequence, list(Arrays.copyOf(prompt, found)));
        open.add(opened);
        if (found < prompt.length) {
            List<Runnable> writes = new ArrayList<>();
            append(opened, Arrays.copyOfRange(prompt, found, prompt.length), writes);
            writes.forEach(Runnable::run);
        }
    }

    /** Several sequences grow in one step: all copies happen before all writes. */
    private void step() {
        saw("step", true);
        List<Runnable> writes = new ArrayList<>();
        for (int i = random.nextInt(4); i >= 0; i--) {
            Oracle one = open.get(random.nextInt(open.size()));
            int[] text = texts.get(random.nextInt(texts.size()));
            int[] more = new int[1 + random.nextInt(2 * blockSize)];
            for (int j = 0; j < more.length; j++) {
                more[j] = text[(one.tokens.size() + j) % text.length];
            }
            append(one, more, writes);
        }
        writes.forEach(Runnable::run);
        if (pool.stats().held() > BLOCKS - 2) {
            close(open.get(random.nextInt(open.size())));
        }
    }

    private void append(Oracle one, int[] more, List<Runnable> writes) {
        BlockPoolStats before = pool.stats();
        int length = one.tokens.size();
        int fresh = Math.ceilDiv(length + more.length, blockSize) - Math.ceilDiv(length, blockSize);
        boolean partial = length % blockSize > 0;
        boolean published = partial && pool.index.of(one.sequence.blocks.getLast()) != null;
        int asked = fresh + (partial && holders(one.sequence.blocks.getLast()) > 1 ? 1 : 0);
        boolean fits = asked <= BLOCKS - held().size();
        SlotAllocation appended;
        try {
            appended = one.sequence.append(more);
        } catch (OutOfBlocksException full) {
            saw("exhausted", true);
            assertThat(fits).as("refused although it fits").isFalse();
            assertThat(full.requested()).isEqualTo(asked);
            assertThat(pool.stats()).isEqualTo(before);
            return;
        }
        assertThat(fits).as("taken although it does not fit").isTrue();
        boolean inPlace = published && appended.copy().isEmpty();
        int taken = fresh + (appended.copy().isPresent() ? 1 : 0);
        long evicted = pool.stats().evictions() - before.evictions();
        if (!inPlace) {
            assertThat(evicted)
                    .as("evicted no more than needed")
                    .isLessThanOrEqualTo(Math.max(0, taken - before.free()));
        }
        saw("kept in place", inPlace);
        saw("evicted", evicted > 0);
        saw("copy", appended.copy().isPresent());
        appended.copy().ifPresent(this::copy);
        for (int i = 0; i < more.length; i++) {
            one.add(more[i]);
        }
        List<Integer> values = List.copyOf(one.values);
        writes.add(() -> {
            for (int i = 0; i < more.length; i++) {
                rows[appended.slots()[i]] = values.get(length + i);
            }
        });
    }

    private void copy(BlockCopy copy) {
        System.arraycopy(rows, copy.from() * blockSize, rows, copy.to() * blockSize, copy.rows());
    }

    private void fork(Oracle one) {
        if (open.size() < 8) {
            saw("fork", true);
            open.add(new Oracle(one.root, one.sequence.fork(), one.tokens));
        }
    }

    private void truncate(Oracle one) {
        int to = random.nextInt(one.tokens.size() + 1);
        if (one.sequence.released() * blockSize > firstSeen(to)) {
            refused(() -> one.sequence.truncate(to));
            return;
        }
        one.sequence.truncate(to);
        one.truncate(to);
        saw("truncate", true);
    }

    /** What a sequence has published, the next one finds. */
    private void publish(Oracle one) {
        List<Integer> before = List.copyOf(one.sequence.blocks);
        one.sequence.publish();
        saw("publish", true);
        saw("shared block", !one.sequence.blocks.equals(before));
        if (one.sequence.released() == 0) {
            int[] prompt = ints(one.tokens);
            try (BlockTable again = pool.open(ROOTS.get(one.root), prompt, 0)) {
                assertThat(again.length()).isEqualTo(prompt.length / blockSize * blockSize);
            }
        }
    }

    private void release(Oracle one) {
        int position = random.nextInt(one.tokens.size() + 1);
        if (position > firstSeen(one.tokens.size())) {
            refused(() -> one.sequence.releaseBefore(position));
            return;
        }
        int released = Math.max(one.sequence.released(), position / blockSize);
        saw("release", released > one.sequence.released());
        one.sequence.releaseBefore(position);
        assertThat(one.sequence.released()).isEqualTo(released);
    }

    private int firstSeen(int position) {
        return window == 0 ? 0 : Math.max(0, position - window + 1);
    }

    private void refused(ThrowingCallable operation) {
        assertThatThrownBy(operation).isInstanceOf(IllegalArgumentException.class);
        saw("refused", true);
    }

    private void close(Oracle one) {
        one.sequence.close();
        open.remove(one);
        saw("close", true);
    }

    private void readsItsOwnTokens(Oracle one) {
        if (!Arrays.equals(one.sequence.tokens(), ints(one.tokens))) {
            throw new AssertionError("a sequence has other tokens than were appended to it");
        }
        int[] table = one.sequence.blocks();
        for (int p = one.sequence.released() * blockSize; p < one.values.size(); p++) {
            if (rows[table[p / blockSize] * blockSize + p % blockSize] != one.values.get(p)) {
                throw new AssertionError(
                        "position " + p + " of " + one.tokens + " under root " + one.root + " reads another row");
            }
        }
    }

    private Set<Integer> held() {
        Set<Integer> held = new HashSet<>();
        open.forEach(each -> held.addAll(blocks(each)));
        return held;
    }

    private long holders(int block) {
        return open.stream().filter(each -> blocks(each).contains(block)).count();
    }

    private static List<Integer> blocks(Oracle one) {
        List<Integer> table = one.sequence.blocks;
        return table.subList(one.sequence.released(), table.size());
    }

    private void saw(String what, boolean happened) {
        if (happened) {
            seen.merge(what, 1, Integer::sum);
        }
    }

    private static List<Integer> list(int[] values) {
        return Arrays.stream(values).boxed().toList();
    }

    private static int[] ints(List<Integer> values) {
        return values.stream().mapToInt(Integer::intValue).toArray();
    }
}
