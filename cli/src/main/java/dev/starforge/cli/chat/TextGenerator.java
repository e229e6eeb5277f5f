package dev.starforge.cli.chat;

import dev.starforge.cli.output.GeneratedText;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampler;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.fim.FillInMiddle.Cursor;
import dev.starforge.text.fim.SuffixStops;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.text.ChatTemplates;
import dev.starforge.train.text.Continuation;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.io.PrintWriter;
import java.time.Clock;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import tools.jackson.databind.node.ArrayNode;

/**
 * A loaded model for interactive use. It continues a prompt, fills in the middle at a cursor, or answers a chat message if the
 * model has a chat template. A prompt longer than the context is truncated at the side farther from the completion.
 */
public final class TextGenerator implements AutoCloseable {
    public static final String CURSOR = "<cursor>";

    private final TunedModel tuned;
    private final ModelFiles files;
    private final Device device;
    private final Precision precision;
    private final Fallback fallback;
    private final boolean tokenHealing;
    private final Scope weights;
    private final Model model;
    private final Tokenizer tokenizer;
    private final Optional<ChatTemplate> template;
    private final ArrayNode messages = Jackson.JSON.createArrayNode();

    public TextGenerator(
            TunedModel tuned, Device device, Precision precision, Fallback fallback, boolean tokenHealing) {
        this.tuned = tuned;
        this.device = device;
        this.precision = precision;
        this.fallback = fallback;
        this.tokenHealing = tokenHealing;
        weights = new Scope(device);
        files = ModelFiles.open(tuned.model());
        try {
            model = tuned.load(files, weights, precision);
            tokenizer = Tokenizers.require(tuned.model(), "run");
            template = ChatTemplates.source(tuned.model())
                    .map(source -> ChatTemplate.parse(
                            tuned.model(),
                            source,
                            ChatTemplates.tokens(tuned.model(), tokenizer),
                            Clock.systemDefaultZone()));
        } catch (RuntimeException failure) {
            close();
            throw failure;
        }
    }

    boolean chats() {
        return template.isPresent();
    }

    /** Clears the conversation. */
    void clear() {
        messages.removeAll();
    }

    /**
     * Generates the completion of a prompt and prints it token by token.
     *
     * @param stopped checked after each token
     */
    public void answer(String text, SamplingParams sampling, int maxTokens, PrintWriter out, BooleanSupplier stopped) {
        int context = model.info().contextLength();
        int most = Math.min(maxTokens, context / 2);
        int room = context - most;
        Set<Integer> stopIds = new TreeSet<>(files.eosTokenIds());
        int cursor = text.indexOf(CURSOR);
        boolean chat = chats() && cursor < 0;
        HealedPrompt healed = cursor >= 0
                ? middle(text, cursor, room, stopIds)
                : chat
                        ? HealedPrompt.asIs(last(tokenizer.encode(conversation(text), false), room))
                        : left(tokenizer.encodeLast(text, room));
        int[] prompt = healed.ids();
        if (prompt.length == 0) {
            throw new ModelException(tuned.model(), "the prompt is empty, and the tokenizer adds no start token");
        }
        SuffixStops stops = cursor < 0 ? SuffixStops.NONE : SuffixStops.of(text.substring(cursor + CURSOR.length()));
        Continuation written = new Continuation(tokenizer, healed, stops);
        GeneratedText answer = new GeneratedText(GeneratedText.Display.TEXT, out, stopIds, written);
        Sampler sampler = new Sampler(sampling, model.info().vocabSize(), prompt);
        try (Generator generator = new Generator(model, device, precision, fallback, prompt.length + most)) {
            generator.generate(
                    prompt,
                    healed::allowed,
                    sampler,
                    most,
                    id -> answer.test(id) && !written.isLooping() && !stopped.getAsBoolean());
        }
        answer.finish();
        if (chat) {
            say(messages, "user", text);
            say(messages, "assistant", answer.text().orElse(""));
        }
    }

    /** The conversation with one more user message, which is kept only with its answer: templates require alternating roles. */
    private String conversation(String text) {
        ArrayNode asked = messages.deepCopy();
        say(asked, "user", text);
        return template.orElseThrow().render(asked, true);
    }

    private static void say(ArrayNode messages, String role, String content) {
        messages.addObject().put("role", role).put("content", content);
    }

    /** The fill-in-the-middle prompt: the end of the prefix and the beginning of the suffix. */
    private HealedPrompt middle(String text, int at, int room, Set<Integer> stopIds) {
        FillInMiddle fim = FillInMiddle.of(tokenizer, tuned.model());
        stopIds.addAll(fim.ends());
        Cursor cursor = new Cursor(text.substring(0, at), "", text.substring(at + CURSOR.length()));
        return fim.window(cursor, List.of(), room, room, tokenHealing).prompt();
    }

    private HealedPrompt left(int... prompt) {
        return tokenHealing ? tokenizer.heal(prompt) : HealedPrompt.asIs(prompt);
    }

    private static int[] last(int[] ids, int room) {
        return Arrays.copyOfRange(ids, Math.max(0, ids.length - room), ids.length);
    }

    @Override
    public void close() {
        files.close();
        weights.close();
    }
}
