package dev.starforge.serve.generation;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.engine.Token;
import java.util.List;

/** What happens to the sequences of a request, in order. */
public sealed interface Event {
    /** Which of the sequences, from 0. */
    int sequence();

    /**
     * A token was chosen; or, with none, text that waited for more of it at the end.
     *
     * @param text what is now certain: whole characters, and no part of a stop string; empty while that waits
     * @param position of the last token, from 0
     */
    record Piece(int sequence, String text, int position, List<Token> tokens) implements Event {}

    /** @param stopSequence the stop string that ended the text; empty otherwise */
    record Finished(int sequence, StopReason reason, String stopSequence, Tally tally) implements Event {}

    record Failed(int sequence, ErrorCode code, Tally tally) implements Event {}
}
