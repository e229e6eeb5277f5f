package dev.starforge.serve.engine;

/** How a model family writes tool calls. */
public enum ToolFormat {
    /** No tool calls, or an unknown format. */
    NONE,
    /** {@code <tool_call>{"name": ..., "arguments": ...}</tool_call>}, any number of times. */
    QWEN,
    /** The whole completion is {@code {"name": ..., "parameters": ...}}. */
    LLAMA3;

    /** The format that a chat template instructs the model to use. */
    public static ToolFormat of(String template) {
        if (!template.contains("tools")) {
            return NONE;
        }
        if (template.contains("<tool_call>")) {
            return QWEN;
        }
        return template.contains("<|start_header_id|>") ? LLAMA3 : NONE;
    }
}
