package dev.starforge.serve.engine;

import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.Tokenizer;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The metadata of a model, with its tokenizer and chat template.
 *
 * @param id model name in the API
 * @param quantization weight type, such as {@code Q4_K}
 * @param vocabulary vocabulary size
 * @param context maximum sequence length, prompt and completion
 * @param toolFormat format of tool calls, from the chat template
 * @param base name of the same weights without adapter, if the model named {@code id} is an adapter; empty if it is not
 * @param device such as {@code cpu} or {@code cuda:0}
 * @param aliases further names that requests can use for the model
 * @param sample a prompt to try the model with; empty if there is none
 */
public record ModelCard(
        String id,
        String base,
        String architecture,
        String quantization,
        int vocabulary,
        int context,
        String device,
        Instant created,
        Tokenizer tokenizer,
        Optional<ChatTemplate> chatTemplate,
        ToolFormat toolFormat,
        List<String> aliases,
        Optional<SamplePrompt> sample) {
    /** A prompt from the repository that the model was tuned on, and the text after it. */
    public record SamplePrompt(String prompt, String suffix) {}

    public ModelCard {
        aliases = List.copyOf(aliases);
    }

    /** A model with one name, without adapter. */
    public ModelCard(
            String id,
            String architecture,
            String quantization,
            int vocabulary,
            int context,
            String device,
            Instant created,
            Tokenizer tokenizer,
            Optional<ChatTemplate> chatTemplate,
            ToolFormat toolFormat) {
        this(
                id,
                "",
                architecture,
                quantization,
                vocabulary,
                context,
                device,
                created,
                tokenizer,
                chatTemplate,
                toolFormat,
                List.of(),
                Optional.empty());
    }

    /** The names of the model and of its base, {@code id} first. */
    public List<String> names() {
        return Stream.concat(Stream.of(id, untuned()), aliases.stream())
                .distinct()
                .toList();
    }

    /** Returns true for the names of the model and of its base. */
    public boolean isNamed(String name) {
        return names().contains(name);
    }

    /** The adapter of requests that name no model; empty for none. */
    public String defaultAdapter() {
        return base.isEmpty() ? "" : id;
    }

    /** The name of the weights without adapter. */
    public String untuned() {
        return base.isEmpty() ? id : base;
    }
}
