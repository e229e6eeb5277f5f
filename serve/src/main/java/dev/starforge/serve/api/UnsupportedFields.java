package dev.starforge.serve.api;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;

/**
 * Fields of OpenAI's API, llama-server and vLLM that would change the result but are not supported. Ignoring them would give a client
 * something else than it asked for, such as JSON that does not match its schema. Values without effect are accepted.
 */
public final class UnsupportedFields {
    private static final String CONSTRAINT = "none: output cannot be constrained";
    private static final String NOT_SUPPORTED = "none: it is not supported";
    private static final Map<String, String> FIELDS = new LinkedHashMap<>();

    /** Values without effect, of fields where that is neither empty, 0 nor false. */
    private static final Map<String, List<String>> NEUTRAL = Map.of(
            "top_n_sigma", List.of("-1", "-1.0", "0", "0.0"),
            "tfs_z", List.of("1", "1.0"),
            "length_penalty", List.of("1", "1.0"),
            "repeat_penalty", List.of("1", "1.0"),
            "skip_special_tokens", List.of("true"),
            "add_generation_prompt", List.of("true"),
            "modalities", List.of("[\"text\"]"),
            "function_call", List.of("\"none\"", "\"auto\""));

    static {
        for (String name : List.of(
                "grammar",
                "grammar_triggers",
                "json_schema",
                "guided_json",
                "guided_regex",
                "guided_choice",
                "guided_grammar",
                "structured_outputs",
                "structural_tag",
                "regex",
                "ebnf")) {
            FIELDS.put(name, CONSTRAINT);
        }
        for (String name : List.of(
                "logit_bias",
                "allowed_token_ids",
                "bad_words",
                "stop_token_ids",
                "min_tokens",
                "prompt_logprobs",
                "truncate_prompt_tokens",
                "include_stop_str_in_output",
                "use_beam_search",
                "mirostat",
                "dynatemp_range",
                "xtc_probability",
                "dry_multiplier",
                "lora",
                "functions",
                "continue_final_message",
                "chat_template",
                "documents",
                "audio")) {
            FIELDS.put(name, NOT_SUPPORTED);
        }
        NEUTRAL.forEach(
                (name, values) -> FIELDS.put(name, String.join(" or ", values) + ": other values are not supported"));
    }

    private UnsupportedFields() {}

    /** Adds a violation for each unsupported field, unless a route has read it. */
    public static void reject(RequestFields fields) {
        FIELDS.forEach((name, constraint) -> {
            if (!fields.isKnown(name) && fields.has(name) && !isNeutral(name, fields.node(name))) {
                fields.violate(name, constraint);
            }
        });
    }

    private static boolean isNeutral(String name, JsonNode value) {
        boolean hasDefault = NEUTRAL.containsKey(name);
        boolean isZero = value.isNumber() && value.doubleValue() == 0 || value.isBoolean() && !value.booleanValue();
        boolean isEmpty = value.isContainer() && value.isEmpty()
                || value.isString() && value.stringValue().isEmpty();
        return isEmpty
                || isZero && !hasDefault
                || NEUTRAL.getOrDefault(name, List.of()).contains(value.toString());
    }
}
