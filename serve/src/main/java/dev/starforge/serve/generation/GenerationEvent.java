package dev.starforge.serve.generation;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.http.HttpException;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/** An event of one of the sequences of a request. */
public sealed interface GenerationEvent {
    /** Index of the sequence in the request, from 0. */
    int sequence();

    /**
     * A token was generated, or, without tokens, text that was held back is released at the end.
     *
     * @param text decoded text that is final: whole characters that are not part of a stop string; may be empty
     * @param position of the last token, from 0
     */
    record Delta(int sequence, String text, int position, List<GeneratedToken> tokens) implements GenerationEvent {}

    /** @param stopSequence the stop string that was matched; empty otherwise */
    record Finished(int sequence, StopReason reason, String stopSequence, Usage usage, Timings timings)
            implements GenerationEvent {}

    record Failed(int sequence, GenerationError error, Usage usage, Timings timings) implements GenerationEvent {
        /** The error response, if the response has not begun. */
        public HttpException exception() {
            return new HttpException(error.status(), error.name(), error.message());
        }

        /** The error object for a stream that has begun. */
        public ObjectNode json() {
            return Api.error(error.status(), error.name(), error.message());
        }
    }
}
