package dev.starforge.serve.scheduler;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.model.generate.Engine.SampledTokens;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import java.util.ArrayList;
import java.util.List;

/** The input of one engine step: chunks of sequences, and a sampled token for each sequence whose last pending token is in it. */
final class BatchStep {
    private final List<SequenceChunk> chunks = new ArrayList<>();
    private final List<ScheduledSequence> sampled = new ArrayList<>();
    private int tokens;
    private int promptTokens;
    private int topLogprobs;

    /** Adds the next {@code count} pending tokens of a sequence. */
    void add(ScheduledSequence sequence, int count) {
        Engine.Sequence engineSequence = sequence.engineSequence();
        boolean last = count == engineSequence.pending();
        chunks.add(new SequenceChunk(engineSequence, count, last ? 1 : 0));
        tokens += count;
        promptTokens += count > 1 ? count : 0;
        if (last) {
            sampled.add(sequence);
            topLogprobs = Math.max(topLogprobs, sequence.request.logprobs());
        }
    }

    boolean isEmpty() {
        return chunks.isEmpty();
    }

    /** The sequences that get a token, in row order. */
    List<ScheduledSequence> sampled() {
        return sampled;
    }

    int tokens() {
        return tokens;
    }

    int promptTokens() {
        return promptTokens;
    }

    boolean isMostlyPrefill() {
        return tokens > 2 * chunks.size();
    }

    void begin(Engine engine) {
        List<RowSampling> params = new ArrayList<>(sampled.size());
        sampled.forEach(sequence -> params.add(sequence.samplingParams()));
        engine.begin(chunks, params, topLogprobs);
    }

    /** The token sampled for row {@code row}. */
    GeneratedToken token(SampledTokens chosen, int row) {
        int wanted = sampled.get(row).request.logprobs();
        List<GeneratedToken.TopLogprob> top = new ArrayList<>();
        for (int i = row * topLogprobs; i < row * topLogprobs + wanted; i++) {
            top.add(new GeneratedToken.TopLogprob(chosen.topIds()[i], chosen.topLogprobs()[i]));
        }
        float logprob = wanted == GenerationRequest.NO_LOGPROBS ? 0 : chosen.logprobs()[row];
        return new GeneratedToken(chosen.tokens()[row], logprob, top);
    }
}
