package dev.starforge.serve.openai;

import dev.starforge.data.Jackson;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Fields;
import dev.starforge.serve.api.InvalidRequest;
import dev.starforge.serve.api.Route;
import dev.starforge.serve.api.Route.Weight;
import dev.starforge.serve.api.Violation;
import dev.starforge.serve.engine.EngineRefusal;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.generation.ErrorCode;
import dev.starforge.serve.generation.Inference;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.serve.http.HttpFailure;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Texts as vectors: one request, one vector for each text. */
public final class EmbeddingRoutes {
    private static final int MOST_INPUTS = 2048;

    private final Inference inference;

    public EmbeddingRoutes(Inference inference) {
        this.inference = inference;
    }

    public List<Route> routes() {
        return List.of(new Route("POST", "/v1/embeddings", Api.OPENAI, Weight.WORK, this::embeddings));
    }

    private void embeddings(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        ModelCard card = engine.card();
        Fields fields = call.fields();
        String model = fields.text("model", "");
        String encoding = fields.text("encoding_format", "float");
        if (!List.of("float", "base64").contains(encoding)) {
            fields.violate("encoding_format", "float or base64");
        }
        if (fields.has("dimensions")) {
            fields.violate("dimensions", "none: vectors have the width of the model");
        }
        List<int[]> inputs = PromptFields.read(fields, "input", card.tokenizer(), card.vocabulary(), MOST_INPUTS);
        fields.check();
        inputs.forEach(input -> requireRoom(input, card));
        String adapter = OpenAiFields.adapter(engine, model);
        List<CompletableFuture<float[]>> vectors = new ArrayList<>();
        try {
            submit(engine, inputs, adapter, vectors);
            call.onGone(() -> cancel(vectors));
            ObjectNode body = Jackson.object().put("object", "list");
            ArrayNode data = body.putArray("data");
            for (int i = 0; i < inputs.size(); i++) {
                ObjectNode entry = data.addObject().put("object", "embedding").put("index", i);
                put(entry, await(vectors.get(i)), encoding);
            }
            int tokens = inputs.stream().mapToInt(input -> input.length).sum();
            body.put("model", model.isEmpty() ? card.id() : model);
            body.putObject("usage").put("prompt_tokens", tokens).put("total_tokens", tokens);
            call.respond(200, body);
        } finally {
            cancel(vectors);
        }
    }

    private static void requireRoom(int[] input, ModelCard card) {
        if (input.length > card.context()) {
            throw new InvalidRequest(
                    "context_length_exceeded",
                    List.of(new Violation(
                            "input", "at most " + card.context() + " tokens, but one has " + input.length)));
        }
    }

    private static void submit(
            InferenceEngine engine, List<int[]> inputs, String adapter, List<CompletableFuture<float[]>> vectors) {
        try {
            for (int[] input : inputs) {
                vectors.add(engine.embed(input, adapter));
            }
        } catch (EngineRefusal refusal) {
            throw Inference.answer(refusal);
        }
    }

    private static void cancel(List<CompletableFuture<float[]>> vectors) {
        vectors.forEach(vector -> vector.cancel(true));
    }

    private float[] await(CompletableFuture<float[]> vector) throws InterruptedException {
        try {
            return vector.get(inference.timeout().toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            throw failure(ErrorCode.TIMEOUT);
        } catch (CancellationException gone) {
            throw failure(ErrorCode.CANCELLED);
        } catch (ExecutionException failed) {
            throw failure(ErrorCode.INFERENCE_FAILED);
        }
    }

    private static HttpFailure failure(ErrorCode code) {
        return new HttpFailure(code.status(), code.name(), code.message());
    }

    /** Base64 is of the float32 values, little-endian, as OpenAI's own clients ask for them. */
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
