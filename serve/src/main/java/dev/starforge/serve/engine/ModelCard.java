package dev.starforge.serve.engine;

import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.Tokenizer;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * The metadata of a model, with its tokenizer and chat template.
 *
 * @param id model name in the API
 * @param quantization weight type, such as {@code Q4_K}
 * @param vocabulary vocabulary size
 * @param context maximum sequence length, prompt and completion
 * @param toolFormat format of tool calls, from the chat template
 * @param device such as {@code cpu} or {@code cuda:0}
 * @param aliases further names that requests can use for the model
 */
public record ModelCard(
        String id,
        String architecture,
        String quantization,
        int vocabulary,
        int context,
        String device,
        Instant created,
        Tokenizer tokenizer,
        Optional<ChatTemplate> chatTemplate,
        ToolFormat toolFormat,
        List<String> aliases) {
    public ModelCard {
        aliases = List.copyOf(aliases);
    }

    /** A model with one name. */
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
                architecture,
                quantization,
                vocabulary,
                context,
                device,
                created,
                tokenizer,
                chatTemplate,
                toolFormat,
                List.of());
    }

    /** Returns true for the name of the model and its aliases. */
    public boolean isNamed(String name) {
        return name.equals(id) || aliases.contains(name);
    }
}
