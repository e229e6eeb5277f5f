// Renders every template of a folder with every conversation below by @huggingface/jinja, and prints inputs and outputs as
// JSON; null is a conversation that was refused.

import { readdirSync, readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";

const NOW = "2024-02-03T04:05:06Z";
const RealDate = Date;
globalThis.Date = class extends RealDate {
    constructor(...given) {
        super(...(given.length ? given : [NOW]));
    }
};

const weather = {
    type: "function",
    function: {
        name: "weather",
        description: " The weather of a town. ",
        parameters: {
            type: "object",
            properties: {
                town: { type: "string", description: "its name", enum: ["Köln", "Ulm"] },
                days: { type: "integer", minimum: 1 },
            },
            required: ["town"],
        },
    },
};
const clock = { type: "function", function: { name: "clock", parameters: {} } };
const call = (name, args, id) => ({ id, type: "function", function: { name, arguments: args } });

const CONVERSATIONS = {
    question: { messages: [{ role: "user", content: " Hi " }], asks: true },
    system: {
        messages: [
            { role: "system", content: "Be brief. " },
            { role: "user", content: "Print 1 < 2 & \"3\"\nin C" },
        ],
        asks: true,
    },
    turns: {
        messages: [
            { role: "user", content: "One" },
            { role: "assistant", content: "<think>\nhm\n</think>\n\n Two 😀 " },
            { role: "user", content: "Three" },
        ],
        asks: true,
    },
    answered: {
        messages: [
            { role: "system", content: "" },
            { role: "user", content: "One" },
            { role: "assistant", content: "Two" },
        ],
        asks: false,
    },
    "tools offered": { messages: [{ role: "user", content: "Rain?" }], tools: [weather, clock], asks: true },
    "tools used": {
        messages: [
            { role: "system", content: "S" },
            { role: "user", content: "Rain?" },
            { role: "assistant", content: "", tool_calls: [call("weather", { town: "Köln", days: 2, l: [1, "\u001f\\"] }, "123456789")] },
            { role: "tool", content: "{\"rain\": true}", tool_call_id: "123456789" },
            { role: "tool", content: "second", tool_call_id: "123456789" },
            { role: "assistant", content: "Yes.", reasoning_content: "wet" },
            { role: "user", content: "And now?" },
        ],
        tools: [weather],
        asks: true,
    },
    "calls without content": {
        messages: [
            { role: "user", content: "Time?" },
            { role: "assistant", content: null, tool_calls: [call("clock", "{}", "abcdefghi"), call("clock", "{}", "abcdefghj")] },
            { role: "tool", content: "noon", tool_call_id: "abcdefghi" },
        ],
        asks: true,
    },
    parts: {
        only: "mistral-small.jinja",
        messages: [{ role: "user", content: [{ type: "text", text: "a" }, { type: "image" }, { type: "text", text: "b" }] }],
        asks: true,
    },
    "wrong order": {
        messages: [
            { role: "assistant", content: "A" },
            { role: "user", content: "B" },
        ],
        asks: true,
    },
    settings: {
        messages: [{ role: "user", content: "Rain?" }],
        tools: [weather],
        asks: true,
        settings: { enable_thinking: false, tools_in_user_message: false, builtin_tools: ["brave_search", "code_interpreter"] },
    },
};

const folder = process.argv[2];
const tokens = { bos_token: "<s>", eos_token: "</s>" };
const goldens = [];
for (const file of readdirSync(folder).filter((name) => name.endsWith(".jinja")).sort()) {
    const source = readFileSync(`${folder}/${file}`, "utf8");
    for (const [name, { messages, tools, asks, settings, only }] of Object.entries(CONVERSATIONS)) {
        if (only && only !== file) {
            continue;
        }
        const golden = { template: file, name, messages, tools, asks, settings };
        const given = structuredClone({ ...tokens, ...settings, messages, add_generation_prompt: asks });
        try {
            golden.huggingface_jinja = new Template(source).render(tools ? { ...given, tools: structuredClone(tools) } : given);
        } catch {
            golden.huggingface_jinja = null;
        }
        goldens.push(golden);
    }
}
console.log(JSON.stringify({ now: NOW, tokens, goldens }, null, 1));
