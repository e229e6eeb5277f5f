package dev.starforge.text.template;

import java.nio.file.Path;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tools.jackson.databind.JsonNode;

/**
 * The template by which a model writes a conversation as text: a part of Jinja, as much as the templates of the families that
 * we run use, read and run by code of our own. Jinja itself is a programming language with the whole of Python behind it, and
 * templates come with models from anywhere; here there is nothing to call but {@link Functions} and {@link Methods}, and
 * a rendering has a {@link RenderBudget}. What is not known is an error with its line, never a guess.
 */
public final class ChatTemplate {
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
     * Reads a template.
     *
     * @param file for error messages
     * @param tokens special tokens by their template variable, such as {@code bos_token}
     */
    public static ChatTemplate parse(Path file, String source, Map<String, String> tokens) {
        return parse(file, source, tokens, Optional.empty());
    }

    /**
     * Reads a template that may ask for the date.
     *
     * @param clock that tells it; without one the template has to do without, so that its texts are the same tomorrow
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

    /**
     * Writes a conversation.
     *
     * @param messages a list of objects, each with a role and a content
     * @param asks whether what makes the model answer comes last
     */
    public String render(JsonNode messages, boolean asks) {
        return render(messages, List.of(), asks);
    }

    /**
     * Writes a conversation with a model that may call tools.
     *
     * @param tools what may be called, each as OpenAI describes a function; a template without tools does not ask for them
     */
    public String render(JsonNode messages, List<JsonNode> tools, boolean asks) {
        return render(messages, tools, asks, Map.of());
    }

    /**
     * Writes a conversation as its template can be told to.
     *
     * @param settings names that the template asks for, such as {@code enable_thinking}
     */
    public String render(JsonNode messages, List<JsonNode> tools, boolean asks, Map<String, JsonNode> settings) {
        Map<String, Object> names = new HashMap<>(given);
        settings.forEach((name, value) -> names.put(name, Value.of(value)));
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
