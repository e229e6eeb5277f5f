package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The program tests the machine that it is on. */
final class SelftestCommandTest {
    @Test
    void aHealthyMachineIsSaidToBe() {
        StringWriter out = new StringWriter();
        int code =
                RootCommand.commandLine().setOut(new PrintWriter(out)).execute("selftest", "--device", "cpu", "--json");
        JsonNode report = new JsonMapper().readTree(out.toString());
        assertThat(code).as(out.toString()).isZero();
        assertThat(report.path("healthy").booleanValue()).isTrue();
        assertThat(report.path("checks")
                        .valueStream()
                        .map(check -> check.path("name").stringValue()))
                .containsExactly("model starcoder2", "gguf Q4_K", "gguf Q8_0", "operations");
        assertThat(report.path("checks").get(3).path("detail").stringValue())
                .matches("[2-9]\\d operations differ .* at most .*");
    }
}
