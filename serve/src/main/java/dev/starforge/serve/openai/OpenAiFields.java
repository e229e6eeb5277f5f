package dev.starforge.serve.openai;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.generation.Prompt;
import dev.starforge.serve.generation.SamplingFields;
import dev.starforge.serve.http.HttpException;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.LongSupplier;

/** What completions and chats are asked with in common. What would change the answer and is not done here is refused. */
final class OpenAiFields {
    private static final int MOST_CHOICES = 16;

    private final RequestFields fields;
    private final InferenceEngine engine;
    private final SamplingParams sampling;
    private final List<String> stops;
    private final int choices;
    private final boolean ignoreEos;
    private final String model;

    OpenAiFields(RequestFields fields, InferenceEngine engine, LongSupplier seeds) {
        this.fields = fields;
        this.engine = engine;
        sampling = new SamplingFields(fields, SamplingParams.PLAIN)
                .common("repetition_penalty", seeds)
                .penalties()
                .sampling();
        stops = SamplingFields.stops(fields);
        choices = (int) fields.integer("n", 1, MOST_CHOICES, 1);
        ignoreEos = fields.flag("ignore_eos", false);
        model = fields.string("model", "");
        if (!fields.node("logit_bias").isEmpty()) {
            fields.violate("logit_bias", "none: it is not supported");
        }
        RequestFields format = fields.section("response_format");
        if (!format.string("type", "text").equals("text")) {
            fields.violate("response_format", "the type text: output cannot be constrained");
        }
    }

    int choices() {
        return choices;
    }

    boolean stream() {
        return fields.flag("stream", false);
    }

    boolean includeUsage() {
        return fields.section("stream_options").flag("include_usage", false);
    }

    /** The adapter that is asked for by the name of the model; empty for the model itself. */
    String adapter() {
        return adapter(engine, model);
    }

    static String adapter(InferenceEngine engine, String model) {
        if (model.isEmpty() || model.equals(engine.card().id())) {
            return "";
        }
        if (engine.adapters().stream().map(AdapterCard::name).noneMatch(model::equals)) {
            throw new HttpException(404, "model_not_found", "no such model or adapter here; GET /v1/models lists them");
        }
        return model;
    }

    /** The name that the answer gives back. */
    String model() {
        return model.isEmpty() ? engine.card().id() : model;
    }

    /** How long an answer may be: by either of its names, or by llama-server's, where below 0 is no limit. */
    int maxTokens(String name, int otherwise) {
        int context = engine.card().context();
        long predict = fields.integer("n_predict", -1, context, -1);
        long llama = fields.has("n_predict") ? predict < 0 ? otherwise : predict : otherwise;
        return (int) fields.integer(name, 0, context, llama);
    }

    /** Each prompt as often as it is to be answered, with a seed of its own. */
    List<Prompt> prompts(
            List<HealedPrompt> prompts, List<Integer> maxTokens, Set<Integer> stopTokens, int logprobs, String tenant) {
        String adapter = adapter();
        List<Prompt> all = new ArrayList<>();
        for (int i = 0; i < prompts.size(); i++) {
            for (int j = 0; j < choices; j++) {
                SamplingParams own = sampling.withSeed(sampling.seed() + j);
                all.add(new Prompt(
                        new GenerationRequest(
                                prompts.get(i),
                                maxTokens.get(i),
                                own,
                                stopTokens,
                                ignoreEos,
                                logprobs,
                                adapter,
                                tenant),
                        stops));
            }
        }
        return all;
    }
}
