package dev.starforge.train.config;

import dev.starforge.text.config.ForeignKeyRule;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Config keys of other trainers that have no equivalent here, each with a rule. Keys with an equivalent are aliases. */
final class ForeignConfigKeys {
    static final Map<String, ForeignKeyRule> BY_NAME = table();

    private ForeignConfigKeys() {}

    private static Map<String, ForeignKeyRule> table() {
        Map<String, ForeignKeyRule> table = new LinkedHashMap<>();
        table.put("target_window", new ForeignKeyRule.AddedTo(Keys.CONTEXT, "context and target are one sequence"));
        table.put("bnb_4bit_quant_type", new ForeignKeyRule.AllowedValues(List.of("nf4"), "4-bit bases are NF4"));
        table.put(
                "trust_remote_code",
                new ForeignKeyRule.AllowedValues(List.of("false"), "code that comes with a model is never executed"));
        table.put("device_map", new ForeignKeyRule.Unsupported("a model runs on one device; see device.force"));
        table.put("num_beams", new ForeignKeyRule.AllowedValues(List.of("1"), "there is no beam search"));
        table.put("fp16", new ForeignKeyRule.Unsupported("see optimization.mixed_precision"));
        table.put("deepspeed", new ForeignKeyRule.Unsupported("training runs in one process"));
        return table;
    }
}
