package dev.starforge.serve.openai;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.template.ChatTemplateException;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.SpecialTokenMarks.NoUnusedMarkException;
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
import tools.jackson.databind.node.ArrayNode;

/** OpenAI's {@code /v1/completions}, with fill-in-the-middle by {@code suffix}, and {@code /v1/chat/completions}. */
public final class CompletionRoutes {
    private static final int DEFAULT_MAX_TOKENS = 16;
    private static final int MAX_LOGPROBS = 20;
    private static final int MAX_SEQUENCES = 128;

    private final InferenceService inference;
    private final Clock clock;
    private final LongSupplier seeds;
    private final Supplier<String> ids;
    private final boolean specialTokensInContent;

    /**
     * @param ids generates response ids, without their prefix
     * @param specialTokensInContent whether special tokens in chat messages are encoded as such, not as ordinary text
     */
    public CompletionRoutes(
            InferenceService inference,
            Clock clock,
            LongSupplier seeds,
            Supplier<String> ids,
            boolean specialTokensInContent) {
        this.inference = inference;
        this.clock = clock;
        this.seeds = seeds;
        this.ids = ids;
        this.specialTokensInContent = specialTokensInContent;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("POST", "/v1/completions", Api.OPENAI, Execution.GENERATION, this::completions),
                new ApiRoute("POST", "/v1/chat/completions", Api.OPENAI, Execution.GENERATION, this::chat));
    }

    private void completions(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        ModelCard card = engine.card();
        RequestFields fields = call.fields();
        OpenAiFields common = new OpenAiFields(fields, engine, seeds);
        int maxTokens = common.maxTokens("max_tokens", DEFAULT_MAX_TOKENS);
        boolean echo = fields.flag("echo", false);
        int logprobs = (int) fields.integer("logprobs", 0, MAX_LOGPROBS, GenerationRequest.NO_LOGPROBS);
        if (echo && logprobs >= 0) {
            fields.violate("echo", "false with logprobs: log probabilities of the prompt are not computed");
        }
        fields.integer("best_of", common.choices(), common.choices(), common.choices());
        List<int[]> prompts = PromptFields.read(
                fields, "prompt", card.tokenizer(), card.vocabulary(), MAX_SEQUENCES / common.choices());
        Optional<FillInMiddle> gap = gap(fields, card);
        boolean healing = fields.flag("token_healing", gap.isPresent());
        common.stopRepetition(gap.isPresent(), fields.string("suffix", ""));
        List<String> echoes = echo ? echoes(fields, prompts, card) : Collections.nCopies(prompts.size(), "");
        boolean stream = common.stream();
        boolean usage = common.includeUsage();
        fields.check();
        List<HealedPrompt> healed = gap.map(middle ->
                        List.of(middle.prompt(fields.string("prompt", ""), fields.string("suffix", ""), healing)))
                .orElseGet(() -> prompts.stream()
                        .map(healing ? card.tokenizer()::heal : HealedPrompt::asIs)
                        .toList());
        List<GenerationRequest> requests = common.requests(
                healed, maxTokens, gap.map(FillInMiddle::ends).orElse(Set.of()), logprobs, call.tenant());
        List<String> echoOfChoice = new ArrayList<>();
        echoes.forEach(text -> echoOfChoice.addAll(Collections.nCopies(common.choices(), text)));
        CompletionFormat format = new TextFormat(new TokenLogprobs(card.tokenizer()), echoOfChoice);
        OpenAiResponse response = new OpenAiResponse(
                format,
                format.idPrefix() + ids.get(),
                clock.instant().getEpochSecond(),
                common.model(),
                logprobs >= 0,
                usage,
                prompts.size());
        respond(call, inference.start(engine, requests), response, stream);
    }

    /** The fill-in-the-middle format, if the request has a suffix. */
    private static Optional<FillInMiddle> gap(RequestFields fields, ModelCard card) {
        if (fields.string("suffix", "").isEmpty()) {
            return Optional.empty();
        }
        if (!fields.node("prompt").isString()) {
            fields.violate("prompt", "one string with a suffix");
        }
        if (FimMarkers.of(card.tokenizer()).isEmpty()) {
            fields.violate("suffix", "none: the model has no fill-in-the-middle tokens");
            return Optional.empty();
        }
        return Optional.of(FillInMiddle.of(card.tokenizer(), Path.of(card.id())));
    }

    private static List<String> echoes(RequestFields fields, List<int[]> prompts, ModelCard card) {
        List<String> decoded = new ArrayList<>();
        for (int[] prompt : prompts) {
            decoded.add(card.tokenizer().decode(prompt, true));
        }
        return fields.node("prompt").isString() ? List.of(fields.string("prompt", "")) : decoded;
    }

    private void chat(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        ModelCard card = engine.card();
        RequestFields fields = call.fields();
        OpenAiFields common = new OpenAiFields(fields, engine, seeds);
        boolean logprobs = fields.flag("logprobs", false);
        int top = (int) fields.integer("top_logprobs", 0, MAX_LOGPROBS, 0);
        if (top > 0 && !logprobs) {
            fields.violate("top_logprobs", "logprobs: true with it");
        }
        common.stopRepetition(false, "");
        if (fields.flag("token_healing", false)) {
            fields.violate("token_healing", "false: a chat prompt ends with the tokens of the chat template");
        }
        List<JsonNode> tools = ChatMessages.tools(fields, card);
        boolean stream = common.stream();
        boolean usage = common.includeUsage();
        int[] prompt = prompt(fields, card, tools);
        int unset = -1;
        int maxTokensField = common.maxTokens("max_tokens", unset);
        int maxTokens = (int) fields.integer("max_completion_tokens", 0, card.context(), maxTokensField);
        fields.check();
        int limit = maxTokens == unset ? Math.max(1, card.context() - prompt.length) : maxTokens;
        List<GenerationRequest> requests = common.requests(
                List.of(HealedPrompt.asIs(prompt)),
                limit,
                Set.of(),
                logprobs ? top : GenerationRequest.NO_LOGPROBS,
                call.tenant());
        ToolFormat toolFormat = tools.isEmpty() ? ToolFormat.NONE : card.toolFormat();
        CompletionFormat format = new ChatFormat(new TokenLogprobs(card.tokenizer()), toolFormat, ids);
        OpenAiResponse response = new OpenAiResponse(
                format,
                format.idPrefix() + ids.get(),
                clock.instant().getEpochSecond(),
                common.model(),
                logprobs,
                usage,
                1);
        respond(call, inference.start(engine, requests), response, stream);
    }

    private int[] prompt(RequestFields fields, ModelCard card, List<JsonNode> tools) {
        Optional<ChatTemplate> template = card.chatTemplate();
        if (template.isEmpty()) {
            throw InvalidRequestException.of(
                    "messages",
                    "a model with a chat template; this model has none; pass --chat-template FILE to the worker");
        }
        Map<String, JsonNode> settings = ChatMessages.settings(fields, template.get());
        Optional<ArrayNode> messages = ChatMessages.read(fields);
        if (messages.isPresent()) {
            try {
                ChatPrompt prompt = new ChatPrompt(card.tokenizer(), template.get(), specialTokensInContent);
                return prompt.encode(messages.get(), tools, settings);
            } catch (ChatTemplateException e) {
                fields.violate("messages", "messages that the model's chat template accepts");
            } catch (NoUnusedMarkException e) {
                fields.violate("messages", PromptFields.UNMARKABLE);
            }
        }
        return new int[0];
    }

    private static void respond(Call call, ActiveRequest request, OpenAiResponse response, boolean stream)
            throws IOException, InterruptedException {
        try (request) {
            call.releaseBody();
            call.onDisconnect(request::cancel);
            request.writeTo(
                    stream
                            ? new StreamedCompletionWriter(response, call, request.size())
                            : new WholeCompletionWriter(response, call, request.size()));
        }
    }
}
