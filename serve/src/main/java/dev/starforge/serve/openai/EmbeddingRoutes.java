package dev.starforge.serve.openai;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.FieldViolation;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.JsonResponse;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.generation.ActiveEmbedding;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.PromptFields;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Base64;
import java.util.List;

/** {@code /v1/embeddings}. */
public final class EmbeddingRoutes {
    private static final int MAX_INPUTS = 2048;

    /** Reserved for each vector: 8192 float32 values, more than those of most models. */
    private static final int VECTOR_BYTES = 32 << 10;

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
        call.releaseBody();
        call.reserve((long) inputs.size() * VECTOR_BYTES);
        try (ActiveEmbedding embedding = inference.embed(engine, inputs, adapter)) {
            call.onDisconnect(embedding::cancel);
            List<float[]> all = embedding.await();
            JsonResponse body = call.json().raw("{\"object\":\"list\",\"data\":[");
            for (int i = 0; i < all.size(); i++) {
                body.raw((i == 0 ? "" : ",") + "{\"object\":\"embedding\",\"index\":" + i + ",\"embedding\":");
                write(body, all.get(i), encoding);
                body.raw("}");
            }
            int tokens = inputs.stream().mapToInt(input -> input.length).sum();
            body.raw("],\"model\":\"").text(model.isEmpty() ? card.id() : model);
            body.raw("\",\"usage\":{\"prompt_tokens\":" + tokens + ",\"total_tokens\":" + tokens + "}}");
            body.finish();
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
    private static void write(JsonResponse body, float[] vector, String encoding) throws IOException {
        if (encoding.equals("base64")) {
            ByteBuffer bytes = ByteBuffer.allocate(4 * vector.length).order(ByteOrder.LITTLE_ENDIAN);
            bytes.asFloatBuffer().put(vector);
            body.raw("\"" + Base64.getEncoder().encodeToString(bytes.array()) + "\"");
            return;
        }
        String separator = "[";
        for (float value : vector) {
            body.raw(separator).raw(Float.isFinite(value) ? Float.toString(value) : "null");
            separator = ",";
        }
        body.raw("]");
    }
}
