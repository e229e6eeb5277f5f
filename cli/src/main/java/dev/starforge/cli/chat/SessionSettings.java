package dev.starforge.cli.chat;

import dev.starforge.model.generate.GenerationException;
import dev.starforge.model.generate.SamplingParams;
import java.util.List;

/** Generation settings of {@code run}; {@code /set} changes one of them. */
public record SessionSettings(int maxTokens, SamplingParams sampling) {
    public static final SessionSettings USUAL = new SessionSettings(128, SamplingParams.GREEDY.withTemperature(0.2));

    private static final List<String> NAMES =
            List.of("max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed");

    /**
     * Returns these settings with one of them changed.
     *
     * @throws IllegalArgumentException says what was expected
     */
    public SessionSettings with(String name, String value) {
        if (!NAMES.contains(name)) {
            throw new IllegalArgumentException("expected one of " + String.join(", ", NAMES) + ", got " + name);
        }
        double number;
        try {
            number = Double.parseDouble(value);
        } catch (NumberFormatException none) {
            throw new IllegalArgumentException(name + ": expected a number, got " + value, none);
        }
        boolean counts = List.of("max_tokens", "top_k", "seed").contains(name);
        if (counts && (number != Math.rint(number) || Math.abs(number) > Integer.MAX_VALUE)) {
            throw new IllegalArgumentException(name + ": expected an integer, got " + value);
        }
        if (name.equals("max_tokens")) {
            if (number < 1) {
                throw new IllegalArgumentException("max_tokens: expected at least 1, got " + value);
            }
            return new SessionSettings((int) number, sampling);
        }
        try {
            return new SessionSettings(maxTokens, with(name, number));
        } catch (GenerationException wrong) {
            throw new IllegalArgumentException(wrong.violations().getFirst().toString(), wrong);
        }
    }

    private SamplingParams with(String name, double number) {
        SamplingParams s = sampling;
        return new SamplingParams(
                name.equals("temperature") ? number : s.temperature(),
                name.equals("top_k") ? (int) number : s.topK(),
                name.equals("top_p") ? number : s.topP(),
                name.equals("min_p") ? number : s.minP(),
                s.typicalP(),
                name.equals("repetition_penalty") ? number : s.repetitionPenalty(),
                s.presencePenalty(),
                s.frequencyPenalty(),
                name.equals("seed") ? (long) number : s.seed());
    }

    /** All settings on one line. */
    String show() {
        return "max_tokens " + maxTokens + ", temperature " + sampling.temperature() + ", top_k " + sampling.topK()
                + ", top_p " + sampling.topP() + ", min_p " + sampling.minP() + ", repetition_penalty "
                + sampling.repetitionPenalty() + ", seed " + sampling.seed();
    }
}
