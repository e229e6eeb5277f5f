package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.engine.ModelCard.SamplePrompt;
import dev.starforge.serve.engine.ToolFormat;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** What there is to ask, adapters that come and go, and vectors. */
final class ModelsTest {
    @TempDir
    Path folder;

    private Fixture fixture() throws Exception {
        Path root = Files.createDirectories(folder.resolve("adapters"));
        Files.createFile(Files.createDirectories(root.resolve("sql")).resolve("adapter_config.json"));
        Files.createDirectories(root.resolve("empty"));
        Files.createFile(Files.createDirectories(folder.resolve("outside")).resolve("adapter_config.json"));
        Files.createSymbolicLink(root.resolve("link"), folder.resolve("outside"));
        return new Fixture(new FakeEngine(), options -> options.withAdapterRoot(root));
    }

    @Test
    void modelsAndAdapters() throws Exception {
        try (Fixture fixture = fixture()) {
            JsonNode one = fixture.get("/v1/models").json();
            assertThat(one.get("object").stringValue()).isEqualTo("list");
            assertThat(one.at("/data/0/id").stringValue()).isEqualTo("fake");
            assertThat(one.at("/data/0/object").stringValue()).isEqualTo("model");
            assertThat(one.at("/data/0/created").longValue()).isEqualTo(1_700_000_000);
            assertThat(one.at("/data/0/max_model_len").intValue()).isEqualTo(4096);
            assertThat(fixture.post("/v1/load_lora_adapter", "{'lora_name':'sql','lora_path':'sql'}")
                            .status())
                    .isEqualTo(200);
            assertThat(fixture.get("/v1/models").json().at("/data/1/parent").stringValue())
                    .isEqualTo("fake");
            assertThat(fixture.get("/v1/models/sql").json().get("id").stringValue())
                    .isEqualTo("sql");
            assertThat(fixture.get("/v1/models/fake").json().get("id").stringValue())
                    .isEqualTo("fake");
            assertThat(fixture.get("/v1/models/other").status()).isEqualTo(404);
            assertThat(fixture.get("/v1/models/").status()).isEqualTo(404);
            assertThat(fixture.get("/v1/models/s%71l").json().get("id").stringValue())
                    .isEqualTo("sql");
            assertThat(fixture.get("/v1/models/a%2Fb+c").status()).isEqualTo(404);
            assertThat(fixture.get("/health").json().get("adapters").toString()).isEqualTo("[\"sql\"]");

            fixture.post("/v1/completions", "{'model':'sql','prompt':'x'}");
            fixture.post("/v1/completions", "{'model':'fake','prompt':'x'}");
            fixture.post("/execute", "{'job_id':'j','prompt':'x','max_tokens':1,'adapter':'sql'}");
            fixture.post("/infill", "{'input_prefix':'','input_suffix':'','model':'sql'}");
            assertThat(fixture.engine.requests.stream().map(request -> request.adapter()))
                    .containsExactly("sql", "", "sql", "sql");

            assertThat(fixture.post("/v1/unload_lora_adapter", "{'lora_name':'sql'}")
                            .status())
                    .isEqualTo(200);
            assertThat(fixture.get("/v1/models").json().get("data")).hasSize(1);
            assertThat(fixture.post("/v1/unload_lora_adapter", "{'lora_name':'sql'}")
                            .status())
                    .isEqualTo(404);
        }
    }

    /** Both can be compared; the tuned model is the default, whatever name an editor sends. */
    @Test
    void aTunedModelAndItsBase() throws Exception {
        FakeEngine engine = FakeEngine.tuned("fd-tuned", "nano", new SamplePrompt("let x", ";\n"));
        try (Fixture fixture = new Fixture(engine, options -> options)) {
            Files.createFile(folder.resolve("adapter_config.json"));
            engine.loadAdapter("fd-tuned", folder);
            assertThat(fixture.get("/health").json().get("models").toString()).isEqualTo("[\"fd-tuned\",\"nano\"]");
            JsonNode models = fixture.get("/v1/models").json();
            assertThat(models.at("/data")
                            .valueStream()
                            .map(each -> each.get("id").stringValue()))
                    .containsExactly("fd-tuned", "nano");
            assertThat(models.at("/data/0/parent").stringValue()).isEqualTo("nano");
            assertThat(models.at("/data/0/sample/prompt").stringValue()).isEqualTo("let x");
            assertThat(models.at("/data/1/sample").isMissingNode()).isTrue();
            assertThat(fixture.get("/v1/models/nano").json().get("id").stringValue())
                    .isEqualTo("nano");
            assertThat(fixture.get("/v1/models/fd-tuned").json().get("parent").stringValue())
                    .isEqualTo("nano");

            fixture.post("/v1/completions", "{'prompt':'x'}");
            fixture.post("/v1/completions", "{'model':'fd-tuned','prompt':'x'}");
            fixture.post("/v1/completions", "{'model':'nano','prompt':'x'}");
            fixture.post("/execute", "{'job_id':'j','prompt':'x','max_tokens':1}");
            fixture.post("/execute", "{'job_id':'k','prompt':'x','max_tokens':1,'adapter':''}");
            String infill = "{'input_prefix':'','input_suffix':'','model':'%s'}";
            assertThat(fixture.post("/infill", infill.formatted("gpt"))
                            .json()
                            .get("model")
                            .stringValue())
                    .isEqualTo("fd-tuned");
            assertThat(fixture.post("/infill", infill.formatted("nano"))
                            .json()
                            .get("model")
                            .stringValue())
                    .isEqualTo("nano");
            assertThat(fixture.engine.requests.stream().map(request -> request.adapter()))
                    .containsExactly("fd-tuned", "fd-tuned", "", "fd-tuned", "", "fd-tuned", "");
            assertThat(fixture.post("/v1/completions", "{'model':'gpt','prompt':'x'}")
                            .status())
                    .isEqualTo(404);
            assertThat(fixture.post("/v1/unload_lora_adapter", "{'lora_name':'fd-tuned'}")
                            .status())
                    .isEqualTo(400);
        }
    }

    @Test
    void adaptersLoadOnlyFromBelowTheAdapterRoot() throws Exception {
        try (Fixture fixture = fixture()) {
            for (String path : new String[] {
                "../outside",
                "link",
                folder.resolve("outside").toString(),
                ".",
                "",
                "nowhere",
                "sql/../../outside",
                "a\\u0000b"
            }) {
                Fixture.Reply reply =
                        fixture.post("/v1/load_lora_adapter", "{'lora_name':'x','lora_path':'" + path + "'}");
                assertThat(reply.status()).as(path).isEqualTo(path.isEmpty() ? 400 : 403);
                assertThat(reply.response().body()).doesNotContain(folder.toString());
            }
            String whole = folder.resolve("adapters/sql").toString();
            assertThat(fixture.post("/v1/load_lora_adapter", "{'lora_name':'x','lora_path':'" + whole + "'}")
                            .status())
                    .isEqualTo(200);
            assertThat(fixture.post("/v1/load_lora_adapter", "{'lora_name':'x','lora_path':'sql'}")
                            .status())
                    .isEqualTo(400);
            assertThat(fixture.post("/v1/load_lora_adapter", "{'lora_name':'fake','lora_path':'sql'}")
                            .status())
                    .isEqualTo(400);
            assertThat(fixture.post("/v1/load_lora_adapter", "{'lora_name':'y','lora_path':'empty'}")
                            .status())
                    .isEqualTo(400);
            assertThat(fixture.post("/v1/load_lora_adapter", "{}").status()).isEqualTo(400);
        }
        try (Fixture without = new Fixture()) {
            assertThat(without.post("/v1/load_lora_adapter", "{'lora_name':'x','lora_path':'/'}")
                            .status())
                    .isEqualTo(403);
        }
    }

    /** A link to a file outside the root would be read, and a pipe would block the engine. */
    @Test
    @DisabledOnOs(OS.WINDOWS)
    void filesOfAdaptersAreRegularAndBelowTheRoot() throws Exception {
        try (Fixture fixture = fixture()) {
            Path root = folder.resolve("adapters");
            Path linked = Files.createDirectories(root.resolve("linked"));
            Files.createFile(linked.resolve("adapter_config.json"));
            Files.createSymbolicLink(
                    linked.resolve("adapter_model.safetensors"), folder.resolve("outside/adapter_config.json"));
            Path inner = Files.createDirectories(root.resolve("inner"));
            Files.createSymbolicLink(inner.resolve("adapter_config.json"), root.resolve("sql/adapter_config.json"));
            Path pipe = Files.createDirectories(root.resolve("pipe"));
            Files.createFile(pipe.resolve("adapter_config.json"));
            new ProcessBuilder(
                            "mkfifo", pipe.resolve("adapter_model.safetensors").toString())
                    .start()
                    .waitFor();
            assertThat(pipe.resolve("adapter_model.safetensors")).exists();
            for (String name : List.of("linked", "pipe", "inner")) {
                Fixture.Reply reply =
                        fixture.post("/v1/load_lora_adapter", "{'lora_name':'x','lora_path':'" + name + "'}");
                assertThat(reply.status()).as(name).isEqualTo(name.equals("inner") ? 200 : 403);
                assertThat(reply.response().body()).doesNotContain(folder.toString());
            }
        }
    }

    @Test
    void aModelAnswersToItsAliases() throws Exception {
        FakeEngine engine = new FakeEngine("fake", true, ToolFormat.NONE, List.of("nano", "nano.gguf"));
        try (Fixture fixture = new Fixture(engine, options -> options)) {
            for (String name : List.of("fake", "nano", "nano.gguf", "")) {
                Fixture.Reply reply = fixture.post("/v1/completions", "{'prompt':'x','model':'" + name + "'}");
                assertThat(reply.status()).as(name).isEqualTo(200);
            }
            assertThat(fixture.post("/v1/completions", "{'prompt':'x','model':'nan'}")
                            .status())
                    .isEqualTo(404);
            assertThat(fixture.get("/v1/models/nano").json().get("id").stringValue())
                    .isEqualTo("fake");
            JsonNode listed = fixture.get("/v1/models").json().get("data");
            assertThat(listed).hasSize(1);
            assertThat(listed.at("/0/aliases").toString()).isEqualTo("[\"nano\",\"nano.gguf\"]");
        }
    }

    @Test
    void embeddings() throws Exception {
        try (Fixture fixture = new Fixture()) {
            JsonNode answer = fixture.post("/v1/embeddings", "{'model':'fake','input':['a b c','d']}")
                    .json();
            assertThat(answer.get("object").stringValue()).isEqualTo("list");
            assertThat(answer.get("data")).hasSize(2);
            assertThat(answer.at("/data/1/index").intValue()).isEqualTo(1);
            assertThat(answer.at("/data/0/embedding/0").floatValue()).isEqualTo(0.6f);
            int tokens =
                    FakeEngine.TOKENIZER.encode("a b c", true).length + FakeEngine.TOKENIZER.encode("d", true).length;
            assertThat(answer.at("/usage/prompt_tokens").intValue()).isEqualTo(tokens);
            JsonNode coded = fixture.post("/v1/embeddings", "{'input':[5,6,7],'encoding_format':'base64'}")
                    .json();
            ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder()
                            .decode(coded.at("/data/0/embedding").stringValue()))
                    .order(ByteOrder.LITTLE_ENDIAN);
            assertThat(bytes.getFloat(0)).isEqualTo(0.6f);
            assertThat(bytes.getFloat(12)).isEqualTo(3);
            for (String bad : new String[] {
                "{}",
                "{'input':''}",
                "{'input':'x','encoding_format':'int8'}",
                "{'input':'x','dimensions':3}",
                "{'input':[]}"
            }) {
                assertThat(fixture.post("/v1/embeddings", bad).status()).as(bad).isEqualTo(400);
            }
            assertThat(fixture.post("/v1/embeddings", "{'input':'x','model':'other'}")
                            .status())
                    .isEqualTo(404);
            Fixture.Reply longer = fixture.post("/v1/embeddings", "{'input':'" + "a b ".repeat(3000) + "'}");
            assertThat(longer.json().at("/error/code").stringValue()).isEqualTo("context_length_exceeded");
        }
    }
}
