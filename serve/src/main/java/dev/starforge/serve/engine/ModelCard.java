package dev.starforge.serve.engine;

import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.Tokenizer;
import java.time.Instant;
import java.util.Optional;

/**
 * The model of an engine, as clients are told of it, and the parts of it that are text.
 *
 * @param id the name that requests and answers have for it
 * @param quantization of its weights, such as {@code Q4_K}
 * @param vocabulary number of token ids
 * @param context the longest sequence, prompt and answer together
 * @param toolFormat how it calls tools, by its chat template
 * @param device in words, {@code cpu} or {@code cuda:0}
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
        ToolFormat toolFormat) {}
