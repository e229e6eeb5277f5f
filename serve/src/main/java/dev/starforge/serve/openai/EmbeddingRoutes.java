package dev.starforge.serve.openai;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.FieldViolation;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.generation.ActiveEmbedding;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Base64;
import java.util.List;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** {@code /v1/embeddings}. */
public final class EmbeddingRoutes {
    private static final int MAX_INPUTS = 2048;

    private final InferenceService inference;

    public EmbeddingRoutes(InferenceService inference) {
        this.inference = inference;
    }

    public List<ApiRoute> routes() {
        return List.of(new ApiRoute("POST", "/v1/embeddings", Api.OPENAI, Execution.GENERATION, this::embeddings));
    }

    private void embeddings(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        ModelCard card = engine.card();
        RequestFields fields = call.fields();
        String model = fields.string("model", "");
        String encoding = fields.string("encoding_format", "float");
        if (!List.of("float", "base64").contains(encoding)) {
            fields.violate("encoding_format", "float or base64");
        }
        if (fields.has("dimensions")) {
            fields.violate("dimensions", "none: the embedding size is fixed by the model");
        }
        List<int[]> inputs = PromptFields.read(fields, "input", card.tokenizer(), card.vocabulary(), MAX_INPUTS);
        fields.check();
        inputs.forEach(input -> requireRoom(input, card));
        String adapter = OpenAiFields.adapter(engine, model);
        try (ActiveEmbedding embedding = inference.embed(engine, inputs, adapter)) {
            call.onDisconnect(embedding::cancel);
            List<float[]> all = embedding.await();
            ObjectNode body = Jackson.object().put("object", "list");
            ArrayNode data = body.putArray("data");
            for (int i = 0; i < all.size(); i++) {
                put(data.addObject().put("object", "embedding").put("index", i), all.get(i), encoding);
            }
            int tokens = inputs.stream().mapToInt(input -> input.length).sum();
            body.put("model", model.isEmpty() ? card.id() : model);
            body.putObject("usage").put("prompt_tokens", tokens).put("total_tokens", tokens);
            call.respond(200, body);
        }
    }

    private static void requireRoom(int[] input, ModelCard card) {
        if (input.length > card.context()) {
            throw new InvalidRequestException(
                    "context_length_exceeded",
                    List.of(new FieldViolation(
                            "input", "at most " + card.context() + " tokens, but one has " + input.length)));
        }
    }

    /** Base64 encodes little-endian float32 values; OpenAI's clients request it by default. */
    private static void put(ObjectNode entry, float[] vector, String encoding) {
        if (encoding.equals("base64")) {
            ByteBuffer bytes = ByteBuffer.allocate(4 * vector.length).order(ByteOrder.LITTLE_ENDIAN);
            bytes.asFloatBuffer().put(vector);
            entry.put("embedding", Base64.getEncoder().encodeToString(bytes.array()));
            return;
        }
        ArrayNode values = entry.putArray("embedding");
        for (float value : vector) {
            values.add(value);
        }
    }
}
