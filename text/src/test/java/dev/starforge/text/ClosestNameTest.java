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
        assertThat(ClosestName.key("training.lora_rank", keys)).isEqualTo("quantization.lora_rank");
        assertThat(ClosestName.key("training.sed", keys)).isEqualTo("training.seed");
    }

    @Test
    void distanceIsLevenshteins() {
        assertThat(ClosestName.distance("kitten", "sitting")).isEqualTo(3);
        assertThat(ClosestName.distance("", "abc")).isEqualTo(3);
    }
}
