package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.data.TokenShard;
import dev.starforge.data.TokenShardWriter;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.Manifest;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Checks the written shards for windows of words that are in both training and held-out documents, and removes such training
 * documents. The texts were compared before, but documents differ from them: files are concatenated, fill-in-the-middle
 * splits words, and some vocabularies normalize characters.
 */
final class LeakageCheck {
    private final Path train;
    private final DatasetConfig config;
    private final Manifest manifest;
    private final Tokenizer tokenizer;
    private final LeakDetector heldOut;
    private final LeakDetector heldOutBefore;
    private final Runnable advance;

    /**
     * @param work the folder of the written shards
     * @param advance called after every training document, from any worker thread
     */
    LeakageCheck(Path work, DatasetConfig config, Manifest manifest, Tokenizer tokenizer, Runnable advance) {
        train = work.resolve(Split.TRAIN.shard());
        this.config = config;
        this.manifest = manifest;
        this.tokenizer = tokenizer;
        this.advance = advance;
        heldOut = new LeakDetector(config.get(DatasetKeys.WINDOW_WORDS), Integer.MAX_VALUE);
        for (Split split : List.of(Split.VALIDATION, Split.TEST)) {
            try (TokenShard shard = TokenShard.open(work.resolve(split.shard()))) {
                heldOut.addHeldOut(shard, tokenizer);
            }
        }
        heldOutBefore = manifest.heldOut(Optional.of(tokenizer));
    }

    /** Removes the training documents that share a window with held-out ones, and returns their ids. */
    Set<String> drop() throws IOException {
        Path kept = train.resolveSibling("kept.part");
        Set<String> ids = new HashSet<>();
        try (TokenShard shard = TokenShard.open(train)) {
            Set<Integer> leaking = leaking(shard);
            if (leaking.isEmpty()) {
                return ids;
            }
            try (TokenShardWriter writer = new TokenShardWriter(kept, shard.vocabularySize())) {
                for (int document = 0; document < shard.count(); document++) {
                    if (leaking.contains(document)) {
                        ids.add(shard.id(document));
                    } else {
                        writer.add(shard.read(document), shard.origin(document));
                    }
                }
                writer.finish();
            }
        }
        Files.move(kept, train, StandardCopyOption.REPLACE_EXISTING);
        try (TokenShard shard = TokenShard.open(train)) {
            if (!leaking(shard).isEmpty()) {
                throw new DatasetException(
                        config.out(),
                        "the leakage check failed: training documents share " + config.get(DatasetKeys.WINDOW_WORDS)
                                + " words in a row with held-out documents");
            }
        }
        return ids;
    }

    private Set<Integer> leaking(TokenShard shard) {
        Set<Integer> leaking = new HashSet<>(heldOut.leakingDocuments(shard, tokenizer, config.threads(), advance));
        leaking.addAll(heldOutBefore.leakingDocuments(shard, tokenizer, config.threads(), () -> {}));
        return leaking;
    }

    /** The size of the training split after {@link #drop}. */
    DatasetReport.SplitCount trained() {
        try (TokenShard shard = TokenShard.open(train)) {
            Set<String> commits = new HashSet<>();
            long lossTokens = 0;
            for (int document = 0; document < shard.count(); document++) {
                commits.add(shard.origin(document).commit());
                lossTokens += shard.read(document).lossTokens();
            }
            return new DatasetReport.SplitCount(shard.count(), shard.tokens(), lossTokens, commits.size());
        }
    }

    /** Training documents of older generations that share a window with held-out documents of this one. */
    List<String> tombstones() {
        return manifest.leaking(heldOut, tokenizer);
    }
}
