package dev.starforge.train.config;

import dev.starforge.text.config.ForeignConfigKeys;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Settings of other programs that are none of ours, each with an answer; those that are, are aliases of their keys. */
final class Spellings {
    static final Map<String, ForeignConfigKeys> BY_NAME = table();

    private Spellings() {}

    private static Map<String, ForeignConfigKeys> table() {
        Map<String, ForeignConfigKeys> table = new LinkedHashMap<>();
        table.put("target_window", new ForeignConfigKeys.Adds(Keys.CONTEXT, "context and target are one sequence"));
        table.put("bnb_4bit_quant_type", new ForeignConfigKeys.Only(List.of("nf4"), "4-bit bases are NF4"));
        table.put(
                "trust_remote_code",
                new ForeignConfigKeys.Only(List.of("false"), "code that comes with a model is never executed"));
        table.put("device_map", new ForeignConfigKeys.Never("a model runs on one device; see device.force"));
        table.put("num_beams", new ForeignConfigKeys.Only(List.of("1"), "there is no beam search"));
        table.put("fp16", new ForeignConfigKeys.Never("see optimization.mixed_precision"));
        table.put("deepspeed", new ForeignConfigKeys.Never("training runs in one process"));
        return table;
    }
}
