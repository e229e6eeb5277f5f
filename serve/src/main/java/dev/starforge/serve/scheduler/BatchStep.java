package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.model.generate.Engine.SampledTokens;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import java.util.ArrayList;
import java.util.List;

/** What one step computes: pieces of texts, and a token for each text that has nothing pending after its piece. */
final class BatchStep {
    private final List<SequenceChunk> pieces = new ArrayList<>();
    private final List<ScheduledSequence> texts = new ArrayList<>();
    private int tokens;
    private int promptTokens;
    private int top;

    /** The next tokens of a text. */
    void add(ScheduledSequence text, Engine.Sequence sequence, int count) {
        boolean last = count == sequence.pending();
        pieces.add(new SequenceChunk(sequence, count, last ? 1 : 0));
        tokens += count;
        promptTokens += count > 1 ? count : 0;
        if (last) {
            texts.add(text);
            top = Math.max(top, text.request.logprobs());
        }
    }

    boolean isEmpty() {
        return pieces.isEmpty();
    }

    /** Those that get a token, in the order of its rows. */
    List<ScheduledSequence> texts() {
        return texts;
    }

    int tokens() {
        return tokens;
    }

    int promptTokens() {
        return promptTokens;
    }

    boolean isMostlyPrompts() {
        return tokens > 2 * pieces.size();
    }

    void begin(Engine engine) {
        List<RowSampling> choices = new ArrayList<>(texts.size());
        texts.forEach(text -> choices.add(text.choice()));
        engine.begin(pieces, choices, top);
    }

    /** What was chosen for one of the texts. */
    GeneratedToken token(SampledTokens chosen, int row) {
        int wanted = texts.get(row).request.logprobs();
        List<GeneratedToken.TopLogprob> candidates = new ArrayList<>();
        for (int i = row * top; i < row * top + wanted; i++) {
            candidates.add(new GeneratedToken.TopLogprob(chosen.topIds()[i], chosen.topLogprobs()[i]));
        }
        float logprob = wanted == GenerationRequest.NO_LOGPROBS ? 0 : chosen.logprobs()[row];
        return new GeneratedToken(chosen.tokens()[row], logprob, candidates);
    }
}
