package dev.starforge.bench.fuzz;

import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.tensor.device.Selection;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/**
 * Seeded mutations of a valid {@code config.json} with real weights. Each must load or be refused with a typed error; anything else
 * fails the run. {@code main} takes the number of cases and the seed.
 */
final class ConfigFuzz {
    private static final Pattern VALUE = Pattern.compile("-?\\d[\\d.e+-]*|true|false|null|\"[^\"]*\"(?!\\s*:)");
    private static final List<String> INTERESTING = List.of(
            "0",
            "1",
            "-1",
            "2",
            "3",
            "5",
            "7",
            "64",
            "65536",
            "2147483647",
            "-2147483648",
            "4294967296",
            "9223372036854775807",
            "1e999",
            "-1e-999",
            "0.5",
            "1.5",
            "NaN",
            "null",
            "true",
            "false",
            "\"\"",
            "\"llama\"",
            "\"yarn\"",
            "\"longrope\"",
            "\"dynamic\"",
            "\"linear\"",
            "\"llama3\"",
            "[]",
            "{}",
            "[1, 2]");
    private static final String CONFIG = """
        {"model_type": "starcoder2", "vocab_size": 5, "hidden_size": 4, "intermediate_size": 6,
         "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2,
         "max_position_embeddings": 16, "norm_epsilon": 1e-05, "sliding_window": 9, "use_bias": false,
         "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true, "eos_token_id": [0, 1],
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "factor": 2.0, "short_factor": [1.0],
         "long_factor": [2.0], "low_freq_factor": 1.0, "high_freq_factor": 4.0, "beta_fast": 32,
         "original_max_position_embeddings": 8}}
        """;

    private final Path folder;
    private final Device device =
            Selection.choose("reference").backend().open(new DeviceOptions(0, 0, Path.of("target")));
    private final long seed;
    private int drawn;

    private ConfigFuzz(Path folder, long seed) {
        this.folder = folder;
        this.seed = seed;
    }

    public static void main(String[] args) throws IOException {
        int cases = args.length > 0 ? Integer.parseInt(args[0]) : 100_000;
        long seed = args.length > 1 ? Long.parseLong(args[1]) : 1;
        Path folder = Files.createTempDirectory("fuzz");
        SafetensorsFile.write(folder.resolve("model.safetensors"), weights());
        int refused = new ConfigFuzz(folder, seed).run(cases);
        System.out.println(
                "config.json: " + cases + " cases, " + refused + " refused, " + (cases - refused) + " loaded");
        Files.delete(folder.resolve("config.json"));
        Files.delete(folder.resolve("model.safetensors"));
        Files.delete(folder);
    }

    private static List<SafetensorsFile.SafetensorsData> weights() {
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        String layer = "model.layers.0.";
        add(entries, "model.embed_tokens.weight", 5, 4);
        for (String norm : List.of(layer + "input_layernorm", layer + "post_attention_layernorm", "model.norm")) {
            add(entries, norm + ".weight", 4);
            add(entries, norm + ".bias", 4);
        }
        add(entries, layer + "self_attn.q_proj.weight", 4, 4);
        add(entries, layer + "self_attn.k_proj.weight", 2, 4);
        add(entries, layer + "self_attn.v_proj.weight", 2, 4);
        add(entries, layer + "self_attn.o_proj.weight", 4, 4);
        add(entries, layer + "mlp.c_fc.weight", 6, 4);
        add(entries, layer + "mlp.c_proj.weight", 4, 6);
        return entries;
    }

    private static void add(List<SafetensorsFile.SafetensorsData> entries, String name, long... dims) {
        Shape shape = Shape.of(dims);
        entries.add(SafetensorsFile.SafetensorsData.of(name, shape, new float[(int) shape.size()]));
    }

    private int run(int cases) throws IOException {
        load(CONFIG);
        int refused = 0;
        for (int i = 0; i < cases; i++) {
            String mutant = mutant();
            try {
                load(mutant);
            } catch (ModelException | TensorException expected) {
                refused++;
            } catch (RuntimeException | Error wrong) {
                throw new AssertionError("seed " + seed + ", case " + i + ": " + wrong + "\n" + mutant, wrong);
            }
        }
        return refused;
    }

    private void load(String config) throws IOException {
        Files.writeString(folder.resolve("config.json"), config);
        try (ModelFiles files = ModelFiles.open(folder)) {
            Model model = files.load(new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope(), Precision.FLOAT32);
            model.ropeRegime(100);
        }
    }

    /** Makes one to three changes: another value, or a character removed, doubled or replaced. */
    private String mutant() {
        StringBuilder text = new StringBuilder(CONFIG);
        for (int changes = 1 + draw(3); changes > 0; changes--) {
            if (draw(4) > 0) {
                List<MatchResult> values = VALUE.matcher(text).results().toList();
                if (!values.isEmpty()) {
                    MatchResult value = values.get(draw(values.size()));
                    text.replace(value.start(), value.end(), INTERESTING.get(draw(INTERESTING.size())));
                }
            } else {
                int at = draw(text.length());
                switch (draw(3)) {
                    case 0 -> text.deleteCharAt(at);
                    case 1 -> text.insert(at, text.charAt(at));
                    default -> text.setCharAt(at, (char) (32 + draw(96)));
                }
            }
        }
        return text.toString();
    }

    private int draw(int bound) {
        return (int) (Philox.uniform(seed, 0, drawn++) * bound);
    }
}
