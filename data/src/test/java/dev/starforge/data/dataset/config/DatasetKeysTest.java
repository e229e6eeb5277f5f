package dev.starforge.data.dataset.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.dataset.Builds;
import dev.starforge.data.dataset.report.Manifest;
import dev.starforge.text.config.ConfigException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

final class DatasetKeysTest {
    private static final Path PLACE = Path.of("some", "project.git");

    /** As version 1 of the manifest has them: a dataset grows only with the same, so names, order and forms stay. */
    @Test
    void manifestKeysAreStable() {
        DatasetConfig config = new DatasetConfig(
                PLACE, PLACE, "HEAD", "", Builds.settings(List.of("filters.exclude=*.sql,docs/**", "splits.test=10")));
        assertThat(Manifest.settings(config).toString())
                .isEqualTo("{\"name\":\"project\",\"seed\":42,\"history.max_blob_bytes\":8388608,"
                        + "\"history.copies\":false,\"redact.people\":true,\"filters.max_lines\":100000,"
                        + "\"filters.mean_line\":100,\"filters.longest_line\":1000,\"filters.min_alphabetic\":0.25,"
                        + "\"filters.max_encoded_run\":1024,\"filters.max_encoded_share\":0.5,\"filters.data_lines\":512,"
                        + "\"filters.max_secrets\":5,\"filters.include\":[],\"filters.exclude\":[\"*.sql\",\"docs/**\"],"
                        + "\"filters.licenses\":\"any\",\"duplicates.similarity\":0.7,\"duplicates.min_words\":10,"
                        + "\"splits.train\":85.0,\"splits.validation\":10.0,\"splits.test\":10.0,"
                        + "\"splits.window_words\":30,\"splits.boilerplate_files\":3,\"samples.files\":true,"
                        + "\"samples.commits\":true,\"samples.commit_documents\":0,\"samples.chunks\":true,"
                        + "\"samples.context_length\":2048,"
                        + "\"samples.metadata\":0.5,\"samples.fim_documents\":0.5,\"samples.fim_files\":0.5,"
                        + "\"samples.spm\":0.0,\"samples.span\":\"character\",\"samples.order\":\"random\","
                        + "\"samples.whole_base\":0.2,\"samples.base_lines\":32,\"samples.signatures\":16,"
                        + "\"samples.family\":\"auto\"}");
    }

    @Test
    void nothingToTrainOnIsRefused() {
        assertThatThrownBy(() -> Builds.config(PLACE, PLACE, "splits.train", "0"))
                .isInstanceOf(ConfigException.class)
                .hasMessage("--set splits.train=0: key dataset.splits.train: 0.0: expected a share above 0");
    }
}
