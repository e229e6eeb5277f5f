package dev.starforge.serve.engine;

/** How a family of models writes that it calls a tool. */
public enum ToolFormat {
    /** It does not, or not in a way that is known here. */
    NONE,
    /** {@code <tool_call>{"name": ..., "arguments": ...}</tool_call>}, as often as need be. */
    QWEN,
    /** The whole answer is {@code {"name": ..., "parameters": ...}}. */
    LLAMA3;

    /** That of a chat template, by what it tells the model to write. */
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
