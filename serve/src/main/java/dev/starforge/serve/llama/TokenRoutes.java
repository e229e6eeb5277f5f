package dev.starforge.serve.llama;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.JsonResponse;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.text.tokenizer.DecodeStream;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** {@code /tokenize} and {@code /detokenize}, with the field names of llama-server and of vLLM. */
public final class TokenRoutes {
    private final InferenceService inference;

    public TokenRoutes(InferenceService inference) {
        this.inference = inference;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("POST", "/tokenize", Api.OPENAI, Execution.GENERATION, this::tokenize),
                new ApiRoute("POST", "/detokenize", Api.OPENAI, Execution.GENERATION, this::detokenize));
    }

    private void tokenize(Call call) throws IOException, InterruptedException {
        ModelCard card = inference.engine().card();
        Tokenizer tokenizer = card.tokenizer();
        RequestFields fields = call.fields();
        boolean vllm = fields.has("prompt");
        String name = vllm ? "prompt" : "content";
        String text = fields.string(name, "");
        if (!vllm && !fields.has("content")) {
            fields.violate("content", "a string");
        }
        // the default of the respective server
        boolean special = fields.flag(vllm ? "add_special_tokens" : "add_special", vllm);
        boolean pieces = fields.flag("with_pieces", false);
        boolean parse = fields.flag("parse_special", true);
        fields.check();
        int[] ids = parse ? tokenizer.encode(text, special) : PromptFields.encodeAsText(name, tokenizer, text, special);
        keepOnly(call, ids);
        JsonResponse body = call.json().raw("{\"tokens\":[");
        Map<Integer, String> decoded = new HashMap<>();
        for (int i = 0; i < ids.length; i++) {
            body.raw(i == 0 ? "" : ",");
            if (pieces) {
                String piece = decoded.computeIfAbsent(ids[i], id -> tokenizer.decode(new int[] {id}, false));
                body.raw("{\"id\":")
                        .raw(ids[i])
                        .raw(",\"piece\":\"")
                        .text(piece)
                        .raw("\"}");
            } else {
                body.raw(ids[i]);
            }
        }
        body.raw("],\"count\":").raw(ids.length);
        body.raw(",\"max_model_len\":").raw(card.context()).raw("}").finish();
    }

    private void detokenize(Call call) throws IOException, InterruptedException {
        ModelCard card = inference.engine().card();
        RequestFields fields = call.fields();
        Optional<int[]> ids = PromptFields.ids(fields.node("tokens"), card.vocabulary());
        if (ids.isEmpty()) {
            fields.violate("tokens", "a list of token ids from 0 to " + (card.vocabulary() - 1));
        }
        fields.check();
        int[] tokens = ids.orElseThrow();
        keepOnly(call, tokens);
        JsonResponse body = call.json();
        write(body.raw("{\"content\":\""), card.tokenizer(), tokens);
        write(body.raw("\",\"prompt\":\""), card.tokenizer(), tokens);
        body.raw("\"}").finish();
    }

    /** The client may read slowly; meanwhile only the ids are in memory. */
    private static void keepOnly(Call call, int[] ids) throws InterruptedException {
        call.releaseBody();
        call.reserve((long) Integer.BYTES * ids.length);
    }

    private static void write(JsonResponse body, Tokenizer tokenizer, int[] ids) throws IOException {
        DecodeStream text = tokenizer.stream(false);
        for (int id : ids) {
            body.text(text.push(id));
        }
        body.text(text.finish());
    }
}
