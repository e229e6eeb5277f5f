package dev.starforge.train.tune;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.train.TrainException;
import dev.starforge.train.config.RunConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalDouble;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class TuneHistoryTest {
    @TempDir
    Path folder;

    /** What a call does after a round of five minutes and an interrupted one that continues it up to thirty. */
    private TuneHistory history(String head, double minutes, String... settings) throws IOException {
        Files.writeString(folder.resolve(TuneState.FILE), """
            {"format": "starforge-tune", "version": 1, "rounds": [
              {"number": 1, "head": "a", "base": "m", "base_sha256": "0123456789abcdef", "minutes": 5.0, "settings": {},
               "steps": {"dataset": {}, "quantize": {}}},
              {"number": 2, "head": "a", "base": "m", "base_sha256": "0123456789abcdef", "from": 1, "spent_minutes": 5.0,
               "minutes": 30.0, "settings": {}, "steps": {"dataset": {}}}]}
            """);
        Tune.Length length = new Tune.Length(OptionalDouble.of(minutes), true);
        Tune.Setup setup = new Tune.Setup(
                folder, folder, RunConfig.defaults().set(List.of(settings)), "m", folder, length, null, null, null);
        return new TuneHistory(setup, TuneState.open(folder), head, "0123456789abcdef");
    }

    @Test
    void anUnfinishedRoundNeedsMoreTimeThanIsSpent() throws IOException {
        TuneHistory history = history("a", 6);
        assertThat(history.start()).isEqualTo(TuneStart.RESUME);
        assertThat(history.seconds()).hasValue(60);
        for (double minutes : new double[] {4, 5}) {
            assertThatThrownBy(() -> history("a", minutes))
                    .isInstanceOf(TrainException.class)
                    .hasMessageContainingAll("--minutes " + (int) minutes, "round 2", "more than 5");
        }
    }

    @Test
    void aRoundThatStartsOverReusesTheDatasetOfItsCommit() throws IOException {
        String rank = "quantization.lora_rank=4";
        assertThat(history("a", 4, rank).start()).isEqualTo(TuneStart.RESTART);
        assertThat(history("a", 4, rank).reusesDataset()).isTrue();
        assertThat(history("b", 4, rank).reusesDataset()).isFalse();
        assertThat(history("b", 6).reusesDataset()).as("RESUME").isTrue();
    }
}
