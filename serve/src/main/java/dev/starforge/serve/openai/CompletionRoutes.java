package dev.starforge.serve.openai;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.ApiRoute.Weight;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.Prompt;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.template.ChatTemplateException;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Clock;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import tools.jackson.databind.JsonNode;

/** OpenAI's two ways to ask for text: completions, also of a gap, and chats. */
public final class CompletionRoutes {
    private static final int DEFAULT_TOKENS = 16;
    private static final int MOST_LOGPROBS = 20;
    private static final int MOST_SEQUENCES = 128;

    private final InferenceService inference;
    private final Clock clock;
    private final LongSupplier seeds;
    private final Supplier<String> ids;

    /** @param ids for answers, without their prefix */
    public CompletionRoutes(InferenceService inference, Clock clock, LongSupplier seeds, Supplier<String> ids) {
        this.inference = inference;
        this.clock = clock;
        this.seeds = seeds;
        this.ids = ids;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("POST", "/v1/completions", Api.OPENAI, Weight.WORK, this::completions),
                new ApiRoute("POST", "/v1/chat/completions", Api.OPENAI, Weight.WORK, this::chat));
    }

    private void completions(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        ModelCard card = engine.card();
        RequestFields fields = call.fields();
        OpenAiFields common = new OpenAiFields(fields, engine, seeds);
        int maxTokens = common.maxTokens("max_tokens", DEFAULT_TOKENS);
        boolean echo = fields.flag("echo", false);
        int logprobs = (int) fields.integer("logprobs", 0, MOST_LOGPROBS, GenerationRequest.NO_LOGPROBS);
        if (echo && logprobs >= 0) {
            fields.violate("echo", "false with logprobs: those of the prompt are not computed");
        }
        fields.integer("best_of", common.choices(), common.choices(), common.choices());
        List<int[]> prompts = PromptFields.read(
                fields, "prompt", card.tokenizer(), card.vocabulary(), MOST_SEQUENCES / common.choices());
        Optional<FillInMiddle> gap = gap(fields, card);
        boolean heals = fields.flag("token_healing", false);
        if (heals && gap.isPresent()) {
            fields.violate("token_healing", "false with a suffix: the middle begins with a token of its own");
        }
        List<String> echoes = echo ? echoes(fields, prompts, card) : Collections.nCopies(prompts.size(), "");
        boolean stream = common.stream();
        boolean usage = common.includeUsage();
        fields.check();
        if (gap.isPresent()) {
            prompts = List.of(gap.get().prompt(fields.string("prompt", ""), fields.string("suffix", "")));
        }
        List<HealedPrompt> healed = prompts.stream()
                .map(heals ? card.tokenizer()::heal : HealedPrompt::asIs)
                .toList();
        List<Prompt> wanted = common.prompts(
                healed,
                Collections.nCopies(prompts.size(), maxTokens),
                gap.map(FillInMiddle::ends).orElse(Set.of()),
                logprobs,
                call.tenant());
        List<String> repeated = new ArrayList<>();
        echoes.forEach(text -> repeated.addAll(Collections.nCopies(common.choices(), text)));
        CompletionFormat style = new TextFormat(new TokenLogprobs(card.tokenizer()), repeated);
        answer(
                call,
                engine,
                wanted,
                answer(style, common, logprobs >= 0, usage, prompts.size(), ToolFormat.NONE),
                stream);
    }

    /** A suffix asks for what stands before it. */
    private static Optional<FillInMiddle> gap(RequestFields fields, ModelCard card) {
        if (fields.string("suffix", "").isEmpty()) {
            return Optional.empty();
        }
        if (!fields.node("prompt").isString()) {
            fields.violate("prompt", "one text with a suffix");
        }
        if (FimMarkers.of(card.tokenizer()).isEmpty()) {
            fields.violate("suffix", "none: the model has no fill-in-the-middle tokens");
            return Optional.empty();
        }
        return Optional.of(FillInMiddle.of(card.tokenizer(), Path.of(card.id())));
    }

    private static List<String> echoes(RequestFields fields, List<int[]> prompts, ModelCard card) {
        List<String> texts = new ArrayList<>();
        for (int[] prompt : prompts) {
            texts.add(card.tokenizer().decode(prompt, true));
        }
        return fields.node("prompt").isString() ? List.of(fields.string("prompt", "")) : texts;
    }

    private void chat(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        ModelCard card = engine.card();
        RequestFields fields = call.fields();
        OpenAiFields common = new OpenAiFields(fields, engine, seeds);
        boolean logprobs = fields.flag("logprobs", false);
        int top = (int) fields.integer("top_logprobs", 0, MOST_LOGPROBS, 0);
        if (top > 0 && !logprobs) {
            fields.violate("top_logprobs", "logprobs: true with it");
        }
        if (fields.flag("token_healing", false)) {
            fields.violate("token_healing", "false: a conversation ends with what the chat template puts there");
        }
        List<JsonNode> tools = ChatMessages.tools(fields, card);
        boolean stream = common.stream();
        boolean usage = common.includeUsage();
        String text = render(fields, card, tools);
        int unsaid = -1;
        int either = common.maxTokens("max_tokens", unsaid);
        int maxTokens = (int) fields.integer("max_completion_tokens", 0, card.context(), either);
        fields.check();
        int[] prompt = card.tokenizer().encode(text, false);
        int most = maxTokens == unsaid ? Math.max(1, card.context() - prompt.length) : maxTokens;
        List<Prompt> wanted = common.prompts(
                List.of(HealedPrompt.asIs(prompt)),
                List.of(most),
                Set.of(),
                logprobs ? top : GenerationRequest.NO_LOGPROBS,
                call.tenant());
        CompletionFormat style = new ChatFormat(new TokenLogprobs(card.tokenizer()), ids);
        answer(
                call,
                engine,
                wanted,
                answer(style, common, logprobs, usage, 1, tools.isEmpty() ? ToolFormat.NONE : card.toolFormat()),
                stream);
    }

    private static String render(RequestFields fields, ModelCard card, List<JsonNode> tools) {
        Optional<ChatTemplate> template = card.chatTemplate();
        if (template.isEmpty()) {
            throw InvalidRequestException.of(
                    "messages",
                    "a model with a chat template; this one has none, give it one with --chat-template FILE");
        }
        Map<String, JsonNode> settings = ChatMessages.settings(fields);
        return ChatMessages.read(fields)
                .map(messages -> {
                    try {
                        return template.get().render(messages, tools, true, settings);
                    } catch (ChatTemplateException refused) {
                        fields.violate("messages", "a conversation that the model's chat template takes");
                        return "";
                    }
                })
                .orElse("");
    }

    private Answer answer(
            CompletionFormat style,
            OpenAiFields common,
            boolean logprobs,
            boolean usage,
            int prompts,
            ToolFormat tools) {
        return new Answer(
                style,
                style.idPrefix() + ids.get(),
                clock.instant().getEpochSecond(),
                common.model(),
                logprobs,
                usage,
                prompts,
                tools);
    }

    private void answer(Call call, InferenceEngine engine, List<Prompt> wanted, Answer answer, boolean stream)
            throws IOException, InterruptedException {
        try (ActiveRequest run = inference.start(engine, wanted)) {
            call.onDisconnect(run::cancel);
            if (stream) {
                answer.stream(call, run);
            } else {
                answer.whole(call, run);
            }
        }
    }
}
