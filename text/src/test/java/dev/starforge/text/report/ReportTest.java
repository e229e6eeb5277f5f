package dev.starforge.text.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.json.Jackson;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.node.ObjectNode;

final class ReportTest {
    @Test
    void textInTheDataCannotEndItsScript() {
        ObjectNode data = Jackson.object().put("sample", "</script><img src=x onerror=alert(1)>");
        String page = Report.page("a < b & c", data, "show();\n");
        assertThat(page).doesNotContain("<img").contains("<title>a &lt; b &amp; c</title>");
        String json = page.replaceFirst("(?s).*id=\"data\">(.*?)</script>.*", "$1");
        assertThat(Jackson.JSON.readTree(json)).isEqualTo(data);
    }

    @Test
    void aReportIsSelfContained() {
        String page = Report.page("t", Jackson.object(), "show();\n");
        assertThat(page)
                .contains("default-src 'none'", Report.look(Report.STYLE), Report.look(Report.FUNCTIONS), "show();")
                .doesNotContain("src=\"", "@import", "url(");
    }

    @Test
    void aMissingResourceIsNamed() {
        assertThatThrownBy(() -> Report.look("none.css")).hasMessageContaining("none.css");
    }
}
