package dev.starforge.serve.generation;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.engine.GeneratedToken;
import java.util.List;

/** What happens to the sequences of a request, in order. */
public sealed interface GenerationEvent {
    /** Which of the sequences, from 0. */
    int sequence();

    /**
     * A token was chosen; or, with none, text that waited for more of it at the end.
     *
     * @param text what is now certain: whole characters, and no part of a stop string; empty while that waits
     * @param position of the last token, from 0
     */
    record Delta(int sequence, String text, int position, List<GeneratedToken> tokens) implements GenerationEvent {}

    /** @param stopSequence the stop string that ended the text; empty otherwise */
    record Finished(int sequence, StopReason reason, String stopSequence, Tally tally) implements GenerationEvent {}

    record Failed(int sequence, GenerationError code, Tally tally) implements GenerationEvent {}
}
