package dev.starforge.serve.openai;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.http.HttpException;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Lists the model and its LoRA adapters, and loads and unloads adapters. */
public final class ModelRoutes {
    private static final int MAX_NAME = 128;
    private static final int MAX_PATH = 4096;

    private final InferenceService inference;
    private final Optional<Path> adapterRoot;

    /** @param adapterRoot adapters can only be loaded from below this folder; empty disables loading */
    public ModelRoutes(InferenceService inference, Optional<Path> adapterRoot) {
        this.inference = inference;
        this.adapterRoot = adapterRoot;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("GET", "/v1/models", Api.OPENAI, Execution.INLINE, this::list),
                new ApiRoute("GET", "/v1/models/{id}", Api.OPENAI, Execution.INLINE, this::one),
                new ApiRoute("POST", "/v1/load_lora_adapter", Api.OPENAI, Execution.BLOCKING, this::load),
                new ApiRoute("POST", "/v1/unload_lora_adapter", Api.OPENAI, Execution.BLOCKING, this::unload));
    }

    private void list(Call call) throws IOException {
        InferenceEngine engine = inference.engine();
        ObjectNode body = Jackson.object().put("object", "list");
        ArrayNode data = body.putArray("data");
        ModelCard card = engine.card();
        List<AdapterCard> adapters = engine.adapters();
        adapters.stream()
                .filter(adapter -> adapter.name().equals(card.defaultAdapter()))
                .forEach(adapter -> data.add(adapter(card, adapter)));
        data.add(base(card));
        adapters.stream()
                .filter(adapter -> !adapter.name().equals(card.defaultAdapter()))
                .forEach(adapter -> data.add(adapter(card, adapter)));
        card.sample()
                .ifPresent(sample -> ((ObjectNode) data.get(0))
                        .putObject("sample")
                        .put("prompt", sample.prompt())
                        .put("suffix", sample.suffix()));
        call.respond(200, body);
    }

    private void one(Call call) throws IOException {
        InferenceEngine engine = inference.engine();
        String name = OpenAiFields.adapter(engine, call.pathParameter());
        ObjectNode found = engine.adapters().stream()
                .filter(adapter -> adapter.name().equals(name))
                .findFirst()
                .map(adapter -> adapter(engine.card(), adapter))
                .orElseGet(() -> base(engine.card()));
        call.respond(200, found);
    }

    private static ObjectNode base(ModelCard card) {
        ObjectNode body = model(card.untuned(), card.created()).put("max_model_len", card.context());
        return card.base().isEmpty() ? withAliases(body, card) : body;
    }

    private static ObjectNode withAliases(ObjectNode body, ModelCard card) {
        if (!card.aliases().isEmpty()) {
            card.aliases().forEach(body.putArray("aliases")::add);
        }
        return body;
    }

    private static ObjectNode adapter(ModelCard card, AdapterCard adapter) {
        ObjectNode body = model(adapter.name(), adapter.loaded())
                .put("parent", card.untuned())
                .put("max_model_len", card.context());
        return adapter.name().equals(card.defaultAdapter()) ? withAliases(body, card) : body;
    }

    private static ObjectNode model(String id, Instant created) {
        return Jackson.object()
                .put("id", id)
                .put("object", "model")
                .put("created", created.getEpochSecond())
                .put("owned_by", "starforge");
    }

    private void load(Call call) throws IOException {
        InferenceEngine engine = inference.engine();
        RequestFields fields = call.fields();
        String name = fields.requireString("lora_name", MAX_NAME);
        String path = fields.requireString("lora_path", MAX_PATH);
        fields.check();
        if (engine.card().isNamed(name)) {
            throw InvalidRequestException.of("lora_name", "a name other than the model's");
        }
        Path folder = below(path);
        runOnEngine(() -> engine.loadAdapter(name, folder));
        call.respond(200, Jackson.object().put("lora_name", name).put("status", "loaded"));
    }

    private void unload(Call call) throws IOException {
        InferenceEngine engine = inference.engine();
        RequestFields fields = call.fields();
        String name = fields.requireString("lora_name", MAX_NAME);
        fields.check();
        if (name.equals(engine.card().defaultAdapter())) {
            throw InvalidRequestException.of("lora_name", "a name other than the model's");
        }
        runOnEngine(() -> engine.unloadAdapter(name));
        call.respond(200, Jackson.object().put("lora_name", name).put("status", "unloaded"));
    }

    private static void runOnEngine(Runnable work) {
        try {
            work.run();
        } catch (EngineException e) {
            throw InferenceService.toClientError(e);
        }
    }

    /**
     * Resolves a path, following links. Its files must be below the root, too, and regular files: opening a pipe would block the engine.
     * A missing folder and one that is not allowed give the same error.
     */
    private Path below(String path) {
        HttpException notAllowed = new HttpException(
                403,
                "adapter_path_not_allowed",
                "lora_path: expected a folder below --adapter-root, with regular files");
        try {
            Path root = adapterRoot.orElseThrow(() -> notAllowed).toRealPath();
            Path folder = root.resolve(path).toRealPath();
            if (!folder.startsWith(root) || folder.equals(root)) {
                throw notAllowed;
            }
            try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
                for (Path entry : entries) {
                    if (!Files.isDirectory(entry)
                            && !(Files.isRegularFile(entry)
                                    && entry.toRealPath().startsWith(root))) {
                        throw notAllowed;
                    }
                }
            }
            return folder;
        } catch (IOException | InvalidPathException | DirectoryIteratorException e) {
            throw notAllowed;
        }
    }
}
