package dev.starforge.bench.train;

import dev.starforge.bench.process.Programs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Tokens per second of training on several kinds of base models. */
@Command(
        name = "train-speed",
        mixinStandardHelpOptions = true,
        description = {
            "Measures tokens per second of training an adapter (rank 16, all projections) on random base models of 10"
                    + " M and 85 M parameters, with weights in fp32, bf16, int8 and nf4. Run it on an otherwise idle"
                    + " machine.",
            "",
            "A step is two sequences of 512 tokens of random text; the result is the median of the second half of the"
                    + " steps. The base `full` trains all weights instead, with four sequences per step, and prints its"
                    + " FLOP/s (six per parameter and token, without attention) and the machine's peak.",
            "Example: ./dev train-speed 8 85M fp32 nf4"
        })
public final class TrainSpeed implements Callable<Integer> {
    /** The shape of a base model. */
    private record BaseModel(String name, int width, int layers, int heads, int kvHeads) {}

    private static final List<BaseModel> SHAPES =
            List.of(new BaseModel("10M", 256, 10, 4, 2), new BaseModel("85M", 768, 12, 12, 6));
    private static final Pattern TRAINED = Pattern.compile(", (\\d+) parameters trained");
    private static final JsonMapper JSON = new JsonMapper();
    private static final int DOCUMENTS = 200;
    private static final int WORDS = 600;

    @Parameters(
            index = "0",
            paramLabel = "STEPS",
            arity = "0..1",
            defaultValue = "12",
            description = "Steps of each run (default: ${DEFAULT-VALUE}).")
    int steps;

    @Parameters(index = "1", paramLabel = "SHAPE", arity = "0..1", description = "10M or 85M (default: both).")
    String only = "";

    @Parameters(
            index = "2..*",
            paramLabel = "BASE",
            arity = "0..*",
            description = "fp32, bf16, int8, nf4 or full (default: all but full).")
    List<String> bases = List.of("fp32", "bf16", "int8", "nf4");

    @Override
    public Integer call() throws IOException, InterruptedException {
        bases.forEach(TrainSpeed::settings);
        Path folder = Files.createTempDirectory("train-speed");
        try {
            writeRandomText(folder.resolve("texts.jsonl"));
            System.out.printf("%-8s%s   tokens/s%n", "base", columns(bases));
            for (BaseModel shape : SHAPES) {
                if (only.isEmpty() || only.equals(shape.name)) {
                    measure(folder, shape);
                }
            }
        } finally {
            Programs.delete(folder);
        }
        return 0;
    }

    private void measure(Path folder, BaseModel shape) throws IOException, InterruptedException {
        Path base = folder.resolve(shape.name);
        train(
                folder,
                base,
                List.of(
                        "model.pretrained_model=scratch",
                        "model.hidden_size=" + shape.width,
                        "model.num_hidden_layers=" + shape.layers,
                        "model.num_attention_heads=" + shape.heads,
                        "model.num_key_value_heads=" + shape.kvHeads,
                        "model.vocab_size=8192",
                        "training.max_steps=1"));
        List<String> rates = new ArrayList<>();
        for (String kind : bases) {
            Path run = folder.resolve("run-" + kind + "-" + shape.name);
            List<String> settings = new ArrayList<>(
                    List.of("model.pretrained_model=\"" + base.resolve("base") + "\"", "training.max_steps=" + steps));
            settings.addAll(settings(kind));
            String output = train(folder, run, settings);
            double rate = rate(run);
            rates.add(String.format("%.0f", rate));
            if (kind.equals("full")) {
                rates.add(flops(output, rate));
            }
        }
        System.out.printf("%-8s%s%n", shape.name, columns(rates));
    }

    private static List<String> settings(String base) {
        return switch (base) {
            case "fp32", "bf16" -> List.of("quantization.load_in_4bit=false", "model.dtype=" + base);
            case "int8" -> List.of("quantization.load_in_8bit=true", "model.dtype=bf16");
            case "nf4" -> List.of("quantization.load_in_4bit=true", "model.dtype=bf16");
            case "full" -> List.of("quantization.lora_enabled=false", "optimization.batch_size=4");
            default -> throw new IllegalArgumentException(base + ": expected fp32, bf16, int8, nf4 or full");
        };
    }

    private static String train(Path folder, Path output, List<String> settings)
            throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(List.of(
                "model.context_window=512",
                "optimization.batch_size=2",
                "optimization.gradient_accumulation_steps=1",
                "optimization.gradient_checkpointing=false",
                "training.samples=0",
                "training.eval_steps=0",
                "training.save_steps=0",
                "training.fim_rate=0",
                "quantization.lora_rank=16"));
        all.addAll(settings);
        List<String> command = new ArrayList<>(List.of(
                "train",
                "--device",
                "cpu",
                "--sequences",
                folder.resolve("texts.jsonl").toString(),
                "--out",
                output.toString()));
        all.forEach(setting -> command.addAll(List.of("--set", setting)));
        return Programs.starforge(command);
    }

    /** The median of the second half of the steps. */
    private double rate(Path run) throws IOException {
        List<Double> rates = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode rate = JSON.readTree(line).path("tokens_per_second");
            if (rate.isNumber()) {
                rates.add(rate.doubleValue());
            }
        }
        List<Double> last = rates.subList(Math.max(0, rates.size() - Math.max(1, steps / 2)), rates.size()).stream()
                .sorted()
                .toList();
        return last.get((last.size() - 1) / 2);
    }

    private static String flops(String output, double rate) throws IOException, InterruptedException {
        Matcher trained = TRAINED.matcher(output);
        if (!trained.find()) {
            throw new IOException("train: expected the number of trained parameters in: " + output);
        }
        long parameters = Long.parseLong(trained.group(1));
        String bench = Programs.starforge(
                "bench", "--random", "tiny", "--prompt-tokens", "64", "--gen-tokens", "8", "--device", "cpu", "--json");
        double peak = JSON.readTree(bench.substring(bench.indexOf('{')))
                .findValue("fma_gflop_s")
                .doubleValue();
        double achieved = 6e-9 * parameters * rate;
        return String.format(
                " full: %d parameters, %.0f GFLOP/s of %.0f (%.0f %%)",
                parameters, achieved, peak, 100 * achieved / peak);
    }

    private static String columns(List<String> values) {
        StringBuilder line = new StringBuilder();
        values.forEach(value -> line.append(String.format(" %8s", value)));
        return line.toString();
    }

    private static void writeRandomText(Path file) throws IOException {
        Random random = new Random(1);
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < DOCUMENTS; i++) {
            StringBuilder text = new StringBuilder();
            for (int k = 0; k < WORDS; k++) {
                for (int c = 0; c < 4; c++) {
                    text.append((char) ('a' + random.nextInt(26)));
                }
                text.append(' ');
            }
            lines.add("{\"text\": \"" + text + "\"}");
        }
        Files.write(file, lines);
    }
}
