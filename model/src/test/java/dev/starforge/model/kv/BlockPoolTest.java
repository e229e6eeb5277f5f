package dev.starforge.model.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starforge.model.KvCacheSpec;
import dev.starforge.model.kv.BlockPool.BlockCopy;
import dev.starforge.model.kv.BlockPool.BlockPoolStats;
import dev.starforge.model.kv.BlockPool.BlockTable;
import dev.starforge.model.kv.BlockPool.SlotAllocation;
import dev.starforge.tensor.DType;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each rule of the pool by itself, with blocks of four rows. */
class BlockPoolTest {
    private static final PrefixRoot ROOT = new PrefixRoot("", 0, DType.F16, "");
    private static final KvCacheSpec FULL = new KvCacheSpec(2, 8, 0, false);

    private final List<BlockTable> open = new ArrayList<>();
    private BlockPool pool = pool(8, FULL);

    private static BlockPool pool(int blocks, KvCacheSpec... layers) {
        return new BlockPool(blocks, 4, List.of(layers));
    }

    private BlockTable open(int... prompt) {
        BlockTable sequence = pool.open(ROOT, prompt, 0);
        open.add(sequence);
        return sequence;
    }

    /** A sequence with these tokens, computed and published. */
    private BlockTable published(int... prompt) {
        BlockTable sequence = open(prompt);
        int found = sequence.length();
        if (found < prompt.length) {
            sequence.append(Arrays.copyOfRange(prompt, found, prompt.length));
        }
        sequence.publish();
        return sequence;
    }

    private void close(BlockTable sequence) {
        open.remove(sequence);
        sequence.close();
    }

    private int found(int... prompt) {
        try (BlockTable sequence = pool.open(ROOT, prompt, 0)) {
            return sequence.length();
        }
    }

    private static int[] tokens(int from, int count) {
        return IntStream.range(from, from + count).toArray();
    }

    private void expect(int free, int held, int cached) {
        BlockPoolStats figures = pool.stats();
        assertThat(List.of(figures.free(), figures.held(), figures.cached())).containsExactly(free, held, cached);
    }

    @AfterEach
    void invariantsHold() {
        Invariants.check(pool, open);
        open.forEach(BlockTable::close);
        Invariants.check(pool, List.of());
        assertThat(pool.stats().held()).isZero();
    }

    @Test
    void tokensGoToTheRowsOfTheirBlocks() {
        SlotAllocation first = open().append(tokens(0, 6));
        assertThat(first.slots()).containsExactly(0, 1, 2, 3, 4, 5);
        assertThat(first.copy()).isEmpty();
        assertThat(open().append(9).slots()).containsExactly(8);
        assertThat(open.getFirst().append(6, 7, 8).slots()).containsExactly(6, 7, 12);
        assertThat(open.getFirst().blocks()).containsExactly(0, 1, 3);
        assertThat(open.getFirst().tokens()).containsExactly(tokens(0, 9));
        expect(4, 4, 0);
    }

    @Test
    void aPromptFindsTheLongestRunOfFullBlocks() {
        close(published(tokens(0, 11)));
        expect(6, 0, 2);
        assertThat(found(tokens(0, 11))).isEqualTo(8);
        assertThat(found(0, 1, 2, 3, 4, 5, 9, 9)).isEqualTo(4);
        assertThat(found(0, 1, 2)).isZero();
        assertThat(found(4, 5, 6, 7)).as("the same tokens after another prefix").isZero();
    }

    @Test
    void unpublishedBlocksAreNotFound() {
        open().append(tokens(0, 8));
        assertThat(found(tokens(0, 8))).isZero();
        close(open.getFirst());
        expect(8, 0, 0);
    }

    @Test
    void prefixLookupLeavesTheRequestedTokensToCompute() {
        close(published(tokens(0, 8)));
        for (int compute = 0; compute <= 8; compute++) {
            try (BlockTable sequence = pool.open(ROOT, tokens(0, 8), compute)) {
                assertThat(sequence.length()).isEqualTo((8 - compute) / 4 * 4);
            }
        }
        assertThatThrownBy(() -> pool.open(ROOT, tokens(0, 8), 9))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("open: expected 0 to 8 tokens of the prompt left to compute, got 9");
    }

    static List<PrefixRoot> otherRoots() {
        return List.of(
                new PrefixRoot("adapter", 0, DType.F16, ""),
                new PrefixRoot("", 1, DType.F16, ""),
                new PrefixRoot("", 0, DType.BF16, ""),
                new PrefixRoot("", 0, DType.F16, "tenant"));
    }

    @ParameterizedTest
    @MethodSource("otherRoots")
    void nothingIsSharedAcrossRoots(PrefixRoot other) {
        published(tokens(0, 8));
        BlockTable stranger = pool.open(other, tokens(0, 8), 0);
        open.add(stranger);
        assertThat(stranger.length()).isZero();
        stranger.append(tokens(0, 8));
        stranger.publish();
        assertThat(stranger.blocks()).doesNotContain(open.getFirst().blocks());
    }

    @Test
    void tokensAreComparedNotOnlyHashed() {
        pool = new BlockPool(4, 2, List.of(FULL));
        int[] one = {31, 0};
        int[] other = {0, 1};
        assertThat(IntBuffer.wrap(one)).hasSameHashCodeAs(IntBuffer.wrap(other));
        published(one);
        assertThat(found(one)).isEqualTo(2);
        assertThat(found(other)).isZero();
    }

    @Test
    void theSecondToPublishAPrefixTakesTheBlocksOfTheFirst() {
        BlockTable first = open();
        BlockTable second = open();
        first.append(tokens(0, 9));
        second.append(tokens(0, 10));
        expect(2, 6, 0);
        first.publish();
        second.publish();
        expect(4, 4, 0);
        assertThat(second.blocks()).startsWith(first.blocks()[0], first.blocks()[1]);
        assertThat(second.append(10).copy()).as("its last block is its own").isEmpty();
    }

    @Test
    void aForkSharesAllBlocksAndTheFirstToAppendCopies() {
        BlockTable one = open();
        one.append(tokens(0, 6));
        BlockTable twin = one.fork();
        open.add(twin);
        expect(6, 2, 0);
        SlotAllocation grown = twin.append(9);
        assertThat(grown.copy()).contains(new BlockCopy(1, 2, 2));
        assertThat(grown.slots()).containsExactly(10);
        assertThat(one.append(6).copy()).isEmpty();
        assertThat(one.blocks()).containsExactly(0, 1);
        assertThat(twin.blocks()).containsExactly(0, 2);
        assertThat(twin.tokens()).containsExactly(0, 1, 2, 3, 4, 5, 9);
    }

    @Test
    void aForkAtTheEndOfABlockCopiesNothing() {
        BlockTable one = open();
        one.append(tokens(0, 4));
        open.add(one.fork());
        assertThat(one.append(4).copy()).isEmpty();
        assertThat(open.getLast().append(5).copy()).isEmpty();
        expect(5, 3, 0);
    }

    @Test
    void truncateFreesBlocks() {
        BlockTable one = open();
        one.append(tokens(0, 14));
        one.truncate(5);
        expect(6, 2, 0);
        assertThat(one.tokens()).containsExactly(tokens(0, 5));
        assertThat(one.append(50).slots())
                .as("in place, since it is nobody else's")
                .containsExactly(5);
        one.truncate(0);
        expect(8, 0, 0);
        assertThatThrownBy(() -> one.truncate(1))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("expected a length up to 0");
    }

    @Test
    void aPublishedBlockThatWasCutIsCopiedAndStaysFound() {
        BlockTable one = published(tokens(0, 8));
        one.truncate(6);
        assertThat(one.append(60, 70).copy()).contains(new BlockCopy(1, 2, 2));
        one.publish();
        assertThat(found(tokens(0, 8))).isEqualTo(8);
        assertThat(found(0, 1, 2, 3, 4, 5, 60, 70)).isEqualTo(8);
        expect(5, 2, 1);
    }

    @Test
    void withoutRoomForACopyASequenceUnpublishesItsBlock() {
        pool = pool(2, FULL);
        BlockTable one = published(tokens(0, 8));
        one.truncate(6);
        SlotAllocation grown = one.append(60);
        assertThat(grown.copy()).isEmpty();
        assertThat(grown.slots()).containsExactly(6);
        assertThat(found(tokens(0, 8))).isEqualTo(4);
    }

    @Test
    void theLeastRecentlyUsedIsEvictedAndLeavesBeforeTheirParents() {
        close(published(tokens(0, 12)));
        close(published(tokens(100, 12)));
        assertThat(found(tokens(0, 12))).as("uses the first again").isEqualTo(12);
        expect(2, 0, 6);
        BlockTable other = open();
        other.append(tokens(200, 12));
        assertThat(List.of(found(tokens(100, 12)), found(tokens(0, 12)))).containsExactly(8, 12);
        other.append(tokens(212, 8));
        assertThat(List.of(found(tokens(100, 12)), found(tokens(0, 12)))).containsExactly(0, 12);
        other.append(tokens(220, 4));
        assertThat(List.of(found(tokens(100, 12)), found(tokens(0, 12)))).containsExactly(0, 8);
        assertThat(pool.stats().evictions()).isEqualTo(4);
    }

    @Test
    void heldBlocksAreNotEvicted() {
        BlockTable held = published(tokens(0, 8));
        close(published(tokens(0, 24)));
        expect(2, 2, 4);
        open().append(tokens(100, 24));
        expect(0, 8, 0);
        assertThat(held.blocks()).hasSize(2);
        assertThat(found(tokens(0, 24))).isEqualTo(8);
    }

    @Test
    void exhaustionReportsTheFreeBlocksAndChangesNothing() {
        pool = pool(4, FULL);
        BlockTable one = open();
        one.append(tokens(0, 6));
        open.add(one.fork());
        close(published(tokens(100, 4)));
        BlockPoolStats before = pool.stats();
        OutOfBlocksException full = catchThrowableOfType(OutOfBlocksException.class, () -> one.append(tokens(6, 7)));
        assertThat(full)
                .hasMessage(
                        "append: 3 more KV blocks needed, 1 free, 1 cached and can be evicted, 2 held by sequences; "
                                + "close or preempt a sequence, or give the KV cache more memory");
        assertThat(full.requested()).isEqualTo(3);
        assertThat(full.stats()).isEqualTo(before).isEqualTo(pool.stats());
        assertThat(one.tokens()).containsExactly(tokens(0, 6));
        assertThat(one.append(tokens(6, 6)).copy()).isPresent();
        expect(0, 4, 0);
    }

    @Test
    void theSlidingWindowFreesBlocksAndKeepsPositions() {
        pool = pool(4, new KvCacheSpec(2, 8, 5, false), new KvCacheSpec(4, 8, 3, false));
        BlockTable one = open();
        one.append(tokens(0, 13));
        one.releaseBefore(7);
        assertThat(one.released()).isEqualTo(1);
        expect(1, 3, 0);
        one.releaseBefore(9);
        one.releaseBefore(0);
        assertThat(one.released()).isEqualTo(2);
        assertThat(one.blocks()).containsExactly(0, 0, 2, 3);
        assertThat(one.append(13).slots()).containsExactly(13);
        assertThatThrownBy(() -> one.releaseBefore(11))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                        "releaseBefore: expected 0 to 10, the first position in the window of the next token, got 11");
    }

    @Test
    void truncateKeepsWhatTheNextTokenSees() {
        pool = pool(4, new KvCacheSpec(2, 8, 5, false));
        BlockTable one = open();
        one.append(tokens(0, 13));
        one.releaseBefore(8);
        one.truncate(12);
        assertThatThrownBy(() -> one.truncate(11))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("window begins at or after position 8 (earlier blocks are released), got 11");
    }

    @Test
    void aLayerThatSeesEverythingKeepsEverything() {
        pool = pool(4, new KvCacheSpec(2, 8, 5, false), FULL);
        BlockTable one = open();
        one.append(tokens(0, 13));
        assertThatThrownBy(() -> one.releaseBefore(4)).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void aReleasedPrefixStaysFoundUntilItIsEvicted() {
        pool = pool(4, new KvCacheSpec(2, 8, 4, false));
        BlockTable one = published(tokens(0, 12));
        one.releaseBefore(8);
        expect(1, 1, 2);
        assertThat(found(tokens(0, 12))).isEqualTo(12);
        one.append(tokens(12, 8));
        assertThat(found(tokens(0, 12))).as("the deeper of the two went").isEqualTo(4);
        one.publish();
        assertThat(found(tokens(0, 20))).as("nothing follows a gap").isEqualTo(4);
        expect(0, 3, 1);
        close(one);
        expect(3, 0, 1);
    }

    @Test
    void figuresCountTokens() {
        published(tokens(0, 10));
        assertThat(found(tokens(0, 10))).isEqualTo(8);
        assertThat(pool.stats()).isEqualTo(new BlockPoolStats(5, 3, 0, 20, 8, 0));
    }

    @Test
    void aClosedSequenceIsRefused() {
        BlockTable one = open();
        one.append(1);
        close(one);
        one.close();
        expect(8, 0, 0);
        assertThatThrownBy(() -> one.append(2))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("append: the sequence is closed");
        assertThatThrownBy(one::fork).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(one::publish).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> one.truncate(0)).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> one.releaseBefore(0)).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void wrongSizesAreRefused() {
        assertThatThrownBy(() -> pool(0, FULL)).hasMessageContaining("got 0 blocks of 4 rows for 1 layers");
        assertThatThrownBy(() -> pool(1 << 29, FULL)).hasMessageContaining("fewer than 2^31 rows");
        assertThatThrownBy(() -> pool(8)).hasMessageContaining("for 0 layers");
        assertThatThrownBy(() -> new KvCacheSpec(0, 8, -1, false)).hasMessageContaining("got 0, 8 and -1");
        assertThatThrownBy(() -> open().append()).hasMessage("append: expected at least one token, got none");
    }
}
