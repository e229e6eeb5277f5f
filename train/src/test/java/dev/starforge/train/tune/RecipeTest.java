package dev.starforge.train.tune;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.text.json.Jackson;
import dev.starforge.train.config.RunConfig;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

final class RecipeTest {
    private static final int NANO = 22_000_000;
    private static final long LARGE = 3_000_000_000L;

    private static List<String> gaps(RunConfig config) {
        return List.of(
                config.show("dataset.samples.span"),
                config.show("dataset.samples.fim_documents"),
                config.show("dataset.samples.fim_files"),
                config.show("training.fim_rate"));
    }

    private static RunConfig recipe(RunConfig asked, long parameters, Optional<JsonNode> built) {
        return Recipe.of(asked, parameters, 1024, 1, built);
    }

    @Test
    void smallModelsFillInAtACursorAndLargeOnesWhatTrainHas() {
        RunConfig plain = RunConfig.defaults();
        assertThat(gaps(recipe(plain, NANO, Optional.empty()))).containsExactly("cursor", "0.8", "0.8", "0.0");
        assertThat(gaps(recipe(plain, LARGE, Optional.empty()))).isEqualTo(gaps(plain));
        RunConfig asked = plain.set(List.of("dataset.samples.span=node", "dataset.samples.fim_files=0.3"));
        assertThat(gaps(recipe(asked, NANO, Optional.empty()))).containsExactly("node", "0.8", "0.3", "0.0");
    }

    /** A dataset grows only with the settings that it was built with, whatever a newer recipe would have. */
    @Test
    void aDatasetThatIsThereKeepsItsSettings() {
        JsonNode built = Jackson.object()
                .put("samples.span", "character")
                .put("samples.fim_documents", 0.5)
                .put("samples.fim_files", 0.25);
        assertThat(gaps(recipe(RunConfig.defaults(), NANO, Optional.of(built))))
                .containsExactly("character", "0.5", "0.25", "0.0");
    }
}
