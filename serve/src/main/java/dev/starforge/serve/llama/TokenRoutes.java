package dev.starforge.serve.llama;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

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

    private void tokenize(Call call) throws IOException {
        ModelCard card = inference.engine().card();
        Tokenizer tokenizer = card.tokenizer();
        RequestFields fields = call.fields();
        boolean vllm = fields.has("prompt");
        String text = fields.string(vllm ? "prompt" : "content", "");
        if (!vllm && !fields.has("content")) {
            fields.violate("content", "a string");
        }
        // the default of the respective server
        boolean special = fields.flag(vllm ? "add_special_tokens" : "add_special", vllm);
        boolean pieces = fields.flag("with_pieces", false);
        if (!fields.flag("parse_special", true)) {
            fields.violate("parse_special", "true: special tokens are always parsed");
        }
        fields.check();
        int[] ids = tokenizer.encode(text, special);
        ObjectNode body = Jackson.object();
        ArrayNode tokens = body.putArray("tokens");
        for (int id : ids) {
            if (pieces) {
                tokens.addObject().put("id", id).put("piece", tokenizer.decode(new int[] {id}, false));
            } else {
                tokens.add(id);
            }
        }
        call.respond(200, body.put("count", ids.length).put("max_model_len", card.context()));
    }

    private void detokenize(Call call) throws IOException {
        ModelCard card = inference.engine().card();
        RequestFields fields = call.fields();
        Optional<int[]> ids = PromptFields.ids(fields.node("tokens"), card.vocabulary());
        if (ids.isEmpty()) {
            fields.violate("tokens", "a list of token ids from 0 to " + (card.vocabulary() - 1));
        }
        fields.check();
        String text = card.tokenizer().decode(ids.orElseThrow(), false);
        call.respond(200, Jackson.object().put("content", text).put("prompt", text));
    }
}
