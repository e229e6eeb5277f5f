package dev.starforge.data;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

final class NearestTest {
    @Test
    void aNameThatIsNearEnough() {
        List<String> verbs = List.of("dataset", "generate", "inspect");
        assertThat(Nearest.name("genrate", verbs)).contains("generate");
        assertThat(Nearest.name("datset", verbs)).contains("dataset");
        assertThat(Nearest.name("fly", verbs)).isEmpty();
        assertThat(Nearest.name("x", List.of())).isEmpty();
    }

    @Test
    void aKeyInTheWrongSectionIsNearerThanAnotherKeyInTheRightOne() {
        List<String> keys = List.of("training.seed", "quantization.lora_rank");
        assertThat(Nearest.key("training.lora_rank", keys)).isEqualTo("quantization.lora_rank");
        assertThat(Nearest.key("training.sed", keys)).isEqualTo("training.seed");
    }

    @Test
    void distanceIsLevenshteins() {
        assertThat(Nearest.distance("kitten", "sitting")).isEqualTo(3);
        assertThat(Nearest.distance("", "abc")).isEqualTo(3);
    }
}
