package dev.starforge.text.template;

import java.nio.file.Path;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import tools.jackson.databind.JsonNode;

/**
 * A chat template: the subset of Jinja that the supported model families use, with its own parser and interpreter. Full
 * Jinja gives access to Python, and templates come from untrusted models. Here a template can call only {@link
 * Functions} and {@link Methods}, and a {@link RenderBudget} limits rendering. Unsupported constructs are errors with a
 * line number.
 */
public final class ChatTemplate {
    /** The variables of a template that belong to the model or to the rendering, in any template. */
    private static final Set<String> RESERVED = Set.of(
            "messages",
            "tools",
            "add_generation_prompt",
            "bos_token",
            "eos_token",
            "pad_token",
            "unk_token",
            "sep_token",
            "cls_token",
            "mask_token");

    private final Path file;
    private final List<Statement> statements;
    private final Map<String, Object> given = new HashMap<>();

    private ChatTemplate(Path file, List<Statement> statements, Map<String, String> tokens, Optional<Clock> clock) {
        this.file = file;
        this.statements = statements;
        given.putAll(Functions.all(clock));
        given.putAll(tokens);
    }

    /**
     * Parses a template.
     *
     * @param file for error messages
     * @param tokens special tokens by their template variable, such as {@code bos_token}
     */
    public static ChatTemplate parse(Path file, String source, Map<String, String> tokens) {
        return parse(file, source, tokens, Optional.empty());
    }

    /**
     * Parses a template that may use the date.
     *
     * @param clock for the date; without one the date is undefined, so that the output is reproducible
     */
    public static ChatTemplate parse(Path file, String source, Map<String, String> tokens, Clock clock) {
        return parse(file, source, tokens, Optional.of(clock));
    }

    private static ChatTemplate parse(Path file, String source, Map<String, String> tokens, Optional<Clock> clock) {
        try {
            return new ChatTemplate(file, TemplateParser.parse(source), tokens, clock);
        } catch (Value.Failure wrong) {
            throw new ChatTemplateException(file, "chat template: " + wrong.getMessage(), wrong);
        } catch (StackOverflowError deep) {
            throw new ChatTemplateException(file, "chat template: nests too deeply", deep);
        }
    }

    /** Returns true for a variable that {@code settings} cannot set: a special token, a function, or what is rendered. */
    public boolean isReserved(String name) {
        return RESERVED.contains(name) || given.containsKey(name);
    }

    /**
     * Renders a conversation.
     *
     * @param messages a list of objects, each with a role and a content
     * @param asks whether to append the generation prompt
     */
    public String render(JsonNode messages, boolean asks) {
        return render(messages, List.of(), asks);
    }

    /**
     * Renders a conversation with tools.
     *
     * @param tools function descriptions in OpenAI format; ignored by templates without tool support
     */
    public String render(JsonNode messages, List<JsonNode> tools, boolean asks) {
        return render(messages, tools, asks, Map.of());
    }

    /**
     * Renders a conversation with additional template variables.
     *
     * @param settings variables by name, such as {@code enable_thinking}; {@link #isReserved} names have no effect
     */
    public String render(JsonNode messages, List<JsonNode> tools, boolean asks, Map<String, JsonNode> settings) {
        Map<String, Object> names = new HashMap<>();
        settings.forEach((name, value) -> names.put(name, Value.of(value)));
        names.keySet().removeIf(this::isReserved);
        names.putAll(given);
        names.put("messages", Value.of(messages));
        names.put("add_generation_prompt", asks);
        if (!tools.isEmpty()) {
            names.put("tools", tools.stream().map(Value::of).toList());
        }
        StringBuilder out = new StringBuilder();
        try {
            Statement.writeAll(statements, TemplateScope.of(names), out);
        } catch (Value.Failure wrong) {
            throw new ChatTemplateException(file, "chat template: " + wrong.getMessage(), wrong);
        } catch (StackOverflowError deep) {
            throw new ChatTemplateException(file, "chat template: nests too deeply", deep);
        }
        return out.toString();
    }
}
