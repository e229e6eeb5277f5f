package dev.starforge.serve.openai;

import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.openai.ToolParser.ToolCall;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/** In what completions and chats differ: the same text in other fields. */
sealed interface CompletionFormat permits TextFormat, ChatFormat {
    String idPrefix();

    /** What the answer calls itself. */
    String object(boolean streamed);

    /** The whole text of a choice, and the tools that it calls. */
    void whole(ObjectNode choice, String text, List<ToolCall> calls);

    /** The calls of tools that a stream has after its text. */
    void calls(ObjectNode choice, List<ToolCall> calls);

    /** What a stream says before any text; whether there is something. */
    boolean opening(ObjectNode choice, int sequence);

    /** A part of a text; an empty one comes with the reason for its end. */
    void part(ObjectNode choice, String text);

    ObjectNode logprobs(List<GeneratedToken> tokens, int offset);
}
