package dev.starforge.serve.openai;

import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.openai.ToolParser.ToolCall;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/** The fields in which the responses of completions and chat completions differ. */
sealed interface CompletionFormat permits TextFormat, ChatFormat {
    String idPrefix();

    /** How the model writes tool calls; {@link ToolFormat#NONE} if the request has no tools. */
    ToolFormat tools();

    /** The value of {@code object}. */
    String object(boolean streamed);

    /** Puts the whole text of a choice, and its tool calls. */
    void whole(ObjectNode choice, String text, List<ToolCall> calls);

    /** Puts the tool calls that a stream has after its text. */
    void calls(ObjectNode choice, List<ToolCall> calls);

    /** Puts the first chunk of a stream. Returns false if there is none. */
    boolean opening(ObjectNode choice, int sequence);

    /** Puts a part of the text; empty in the chunk with the finish reason. */
    void part(ObjectNode choice, String text);

    ObjectNode logprobs(List<GeneratedToken> tokens, int offset);
}
