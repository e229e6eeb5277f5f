package dev.starforge.text;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

final class ClosestNameTest {
    @Test
    void aNameThatIsNearEnough() {
        List<String> verbs = List.of("dataset", "generate", "inspect");
        assertThat(ClosestName.name("genrate", verbs)).contains("generate");
        assertThat(ClosestName.name("datset", verbs)).contains("dataset");
        assertThat(ClosestName.name("fly", verbs)).isEmpty();
        assertThat(ClosestName.name("x", List.of())).isEmpty();
    }

    @Test
    void aKeyInTheWrongSectionIsNearerThanAnotherKeyInTheRightOne() {
        List<String> keys = List.of("training.seed", "quantization.lora_rank");
        assertThat(ClosestName.key("training.lora_rank", keys)).contains("quantization.lora_rank");
        assertThat(ClosestName.key("training.sed", keys)).contains("training.seed");
    }

    @Test
    void aKeyIsSuggestedOnlyIfItIsClose() {
        List<String> keys = List.of(
                "dataset.name",
                "dataset.seed",
                "training.seed",
                "optimization.learning_rate",
                "optimization.warmup_steps",
                "optimization.batch_size",
                "samples.spm",
                "device.index");
        assertThat(ClosestName.key("warmup", keys)).contains("optimization.warmup_steps");
        assertThat(ClosestName.key("training.batch", keys)).contains("optimization.batch_size");
        assertThat(ClosestName.key("trainng.seed", keys)).contains("training.seed");
        assertThat(ClosestName.key("optimisation.learning_rte", keys)).contains("optimization.learning_rate");
        assertThat(ClosestName.key("samples.spam", keys)).contains("samples.spm");
        for (String far : List.of(
                "x", "lr", "beam", "dropout", "dataset.colour", "optimization.foo", "device.fan_speed", "warm.up")) {
            assertThat(ClosestName.key(far, keys)).as(far).isEmpty();
        }
    }

    @Test
    void distanceIsLevenshteins() {
        assertThat(ClosestName.distance("kitten", "sitting")).isEqualTo(3);
        assertThat(ClosestName.distance("", "abc")).isEqualTo(3);
    }
}
