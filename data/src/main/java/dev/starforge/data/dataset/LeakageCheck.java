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
 * Holds what was written against itself: no window may be on both sides. Texts were compared before, but a document is not
 * its texts: files stand side by side in it, gaps cut words in two, and some vocabularies write characters in another way.
 * A training document that leaks only then is taken out.
 */
final class LeakageCheck {
    private final Path train;
    private final DatasetConfig config;
    private final Manifest manifest;
    private final Tokenizer tokenizer;
    private final LeakDetector tested;
    private final LeakDetector testedBefore;
    private final Runnable each;

    /**
     * @param work where the shards of a generation were written
     * @param each is run after every training document, by whatever thread
     */
    LeakageCheck(Path work, DatasetConfig config, Manifest manifest, Tokenizer tokenizer, Runnable each) {
        train = work.resolve(Split.TRAIN.shard());
        this.config = config;
        this.manifest = manifest;
        this.tokenizer = tokenizer;
        this.each = each;
        tested = new LeakDetector(config.get(DatasetKeys.WINDOW_WORDS), Integer.MAX_VALUE);
        for (Split split : List.of(Split.VALIDATION, Split.TEST)) {
            try (TokenShard shard = TokenShard.open(work.resolve(split.shard()))) {
                tested.hold(shard, tokenizer);
            }
        }
        testedBefore = manifest.tested(Optional.of(tokenizer));
    }

    /** Takes out the training documents that share a window with what is tested, and returns their ids. */
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
                                + " words in a row with what is tested");
            }
        }
        return ids;
    }

    private Set<Integer> leaking(TokenShard shard) {
        Set<Integer> leaking = new HashSet<>(tested.shared(shard, tokenizer, config.threads(), each));
        leaking.addAll(testedBefore.shared(shard, tokenizer, config.threads(), () -> {}));
        return leaking;
    }

    /** What is trained on now. */
    DatasetReport.SplitCount trained() {
        try (TokenShard shard = TokenShard.open(train)) {
            Set<String> commits = new HashSet<>();
            for (int document = 0; document < shard.count(); document++) {
                commits.add(shard.origin(document).commit());
            }
            return new DatasetReport.SplitCount(shard.count(), shard.tokens(), commits.size());
        }
    }

    /** Documents of older generations that leak by what is tested now. */
    List<String> tombstones() {
        return manifest.leaking(tested, tokenizer);
    }
}
