package dev.starforge.model.kv;

import dev.starforge.model.Model;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Batch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/** Builds ragged {@link Batch}es on a device. */
public final class Batches {
    private Batches() {}

    /**
     * New tokens of a sequence.
     *
     * @param adapter slot of its LoRA adapter; see {@link Batch}
     */
    public record BatchEntry(BlockPool.BlockTable sequence, int[] ids, int adapter) {
        public BatchEntry(BlockPool.BlockTable sequence, int[] ids) {
            this(sequence, ids, Batch.BASE);
        }
    }

    /** Packs whole sequences, with logits of every token, for training or inference without a KV cache. */
    public static Batch packed(Model model, Scope scope, List<int[]> sequences) {
        return packed(model, scope, sequences, Batch.BASE);
    }

    /** Packs whole sequences that all use one adapter slot. */
    public static Batch packed(Model model, Scope scope, List<int[]> sequences, int adapter) {
        int longest = sequences.stream().mapToInt(s -> s.length).max().orElse(0);
        int tokens = sequences.stream().mapToInt(s -> s.length).sum();
        BatchLayout layout = new BatchLayout(sequences.size(), longest, tokens);
        for (int[] sequence : sequences) {
            int start = layout.tokens;
            int[] rows = IntStream.range(start, start + sequence.length).toArray();
            layout.add(sequence, 0, rows, rows, adapter);
        }
        return layout.write(
                Device.of(scope),
                allocate(scope, tokens, sequences.size(), longest, 1, tokens, model.ropeRegime(longest)),
                IntStream.range(0, tokens).toArray());
    }

    /** Builds a batch that appends tokens to cached sequences, with logits of each sequence's last token. */
    public static Batch cached(Model model, Scope scope, List<BatchEntry> chunks) {
        BatchLayout layout = layout(chunks, 0);
        int[] rows = layout.lastRows();
        int tokens = layout.tokens;
        int regime = regime(model, chunks);
        return layout.write(
                Device.of(scope),
                allocate(scope, tokens, chunks.size(), layout.width, PagedKvCache.BLOCK_SIZE, rows.length, regime),
                rows);
    }

    private static int regime(Model model, List<BatchEntry> chunks) {
        int[] regimes = chunks.stream()
                .mapToInt(chunk -> model.ropeRegime(chunk.sequence().length()))
                .distinct()
                .toArray();
        if (regimes.length > 1) {
            throw new TensorException("batch: sequences of different rope regimes, " + Arrays.toString(regimes)
                    + ", do not share a step");
        }
        return regimes.length == 0 ? 0 : regimes[0];
    }

    /** Allocates a decode batch, one token for each of {@code sequences}, for {@link #refill}. */
    public static Batch decode(Scope scope, int sequences, int tableWidth, int regime) {
        return allocate(scope, sequences, sequences, tableWidth, PagedKvCache.BLOCK_SIZE, sequences, regime);
    }

    /** Appends tokens and writes them to an existing batch of the same size, which a replayed step reads. */
    public static void refill(Device device, Batch batch, List<BatchEntry> chunks) {
        BatchLayout layout = layout(chunks, Math.toIntExact(batch.tables().dim(1)));
        layout.write(device, batch, layout.lastRows());
    }

    private static Batch allocate(
            Scope scope, int tokens, int sequences, int tableWidth, int block, int rows, int regime) {
        return new Batch(
                scope.allocate(Spec.i32(tokens)),
                scope.allocate(Spec.i32(tokens)),
                scope.allocate(Spec.i32(sequences + 1)),
                scope.allocate(Spec.i32(tokens)),
                scope.allocate(Spec.i32(sequences, tableWidth)),
                block,
                scope.allocate(Spec.i32(rows)),
                scope.allocate(Spec.i32(sequences)),
                scope.allocate(Spec.i32(tokens)),
                regime);
    }

    private static BatchLayout layout(List<BatchEntry> chunks, int tableWidth) {
        List<int[]> slots = new ArrayList<>();
        List<Integer> positions = new ArrayList<>();
        int width = tableWidth;
        for (BatchEntry chunk : chunks) {
            positions.add(chunk.sequence().length());
            BlockPool.SlotAllocation appended = chunk.sequence().append(chunk.ids());
            if (appended.copy().isPresent()) {
                throw new TensorException("batch: a sequence shares its last block; only Engine copies shared blocks");
            }
            slots.add(appended.slots());
            width = Math.max(width, chunk.sequence().blocks().length);
        }
        int tokens = chunks.stream().mapToInt(chunk -> chunk.ids().length).sum();
        BatchLayout layout = new BatchLayout(chunks.size(), width, tokens);
        for (int s = 0; s < chunks.size(); s++) {
            layout.add(
                    chunks.get(s).ids(),
                    positions.get(s),
                    slots.get(s),
                    chunks.get(s).sequence().blocks(),
                    chunks.get(s).adapter());
        }
        return layout;
    }

    /** The host-side values of a batch. */
    private static final class BatchLayout {
        private final int[] ids;
        private final int[] positions;
        private final int[] slots;
        private final int[] rowAdapters;
        private final int[] starts;
        private final int[] adapters;
        private final int[] tables;
        private final int width;
        private int sequences;
        private int tokens;

        BatchLayout(int sequences, int width, int tokens) {
            this.ids = new int[tokens];
            this.positions = new int[tokens];
            this.slots = new int[tokens];
            this.rowAdapters = new int[tokens];
            this.starts = new int[sequences + 1];
            this.adapters = new int[sequences];
            this.tables = new int[sequences * width];
            this.width = width;
        }

        void add(int[] added, int position, int[] rows, int[] blocks, int adapter) {
            for (int i = 0; i < added.length; i++, tokens++) {
                ids[tokens] = added[i];
                positions[tokens] = position + i;
                slots[tokens] = rows[i];
                rowAdapters[tokens] = adapter;
            }
            System.arraycopy(blocks, 0, tables, sequences * width, blocks.length);
            adapters[sequences] = adapter;
            starts[++sequences] = tokens;
        }

        int[] lastRows() {
            return IntStream.range(0, sequences)
                    .filter(s -> starts[s + 1] > starts[s])
                    .map(s -> starts[s + 1] - 1)
                    .toArray();
        }

        Batch write(Device device, Batch batch, int[] rows) {
            device.write(batch.ids(), ids);
            device.write(batch.positions(), positions);
            device.write(batch.starts(), starts);
            device.write(batch.slots(), slots);
            device.write(batch.tables(), tables);
            device.write(batch.rows(), rows);
            device.write(batch.adapters(), adapters);
            device.write(batch.rowAdapters(), rowAdapters);
            return batch;
        }
    }
}
