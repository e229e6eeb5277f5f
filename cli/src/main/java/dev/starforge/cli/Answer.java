package dev.starforge.cli;

import dev.starforge.model.StopReason;
import dev.starforge.train.text.Continuation;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;

/** Collects what a model says, shows it while it does, and knows when it is enough. */
final class Answer implements IntPredicate {
    /** What is shown as it comes. */
    enum Shown {
        TEXT,
        IDS,
        NOTHING
    }

    private final Shown shown;
    private final PrintWriter out;
    private final Set<Integer> ends;
    private final Optional<Continuation> continuation;
    private final List<Integer> ids = new ArrayList<>();
    private StopReason reason = StopReason.MAX_TOKENS;

    /** Without a tokenizer. */
    Answer(Shown shown, PrintWriter out, Set<Integer> ends) {
        this(shown, out, ends, Optional.empty());
    }

    Answer(Shown shown, PrintWriter out, Set<Integer> ends, Continuation continuation) {
        this(shown, out, ends, Optional.of(continuation));
    }

    private Answer(Shown shown, PrintWriter out, Set<Integer> ends, Optional<Continuation> continuation) {
        this.shown = shown;
        this.out = out;
        this.ends = Set.copyOf(ends);
        this.continuation = continuation;
    }

    /** Takes a token; returns whether more are wanted. */
    @Override
    public boolean test(int id) {
        ids.add(id);
        String text = "";
        if (ends.contains(id)) {
            reason = StopReason.EOS;
        } else {
            text = continuation.map(c -> c.push(id)).orElse("");
        }
        if (stopSequence().isPresent()) {
            reason = StopReason.STOP_SEQUENCE;
        }
        switch (shown) {
            case TEXT -> out.print(text);
            case IDS -> out.print((ids.size() > 1 ? "," : "") + id);
            case NOTHING -> {}
        }
        boolean heard = shown == Shown.NOTHING || !out.checkError(); // flushes
        return heard && reason == StopReason.MAX_TOKENS;
    }

    /** No more tokens come. */
    void finish() {
        String rest = continuation.map(Continuation::finish).orElse("");
        if (stopSequence().isPresent()) {
            reason = StopReason.STOP_SEQUENCE;
        }
        if (shown == Shown.TEXT) {
            out.print(rest);
        }
        if (shown != Shown.NOTHING) {
            out.println();
            out.flush();
        }
    }

    List<Integer> ids() {
        return ids;
    }

    /** The text, where there is a tokenizer. */
    Optional<String> text() {
        return continuation.map(Continuation::text);
    }

    StopReason reason() {
        return reason;
    }

    Optional<String> stopSequence() {
        return continuation.flatMap(Continuation::stopSequence);
    }
}
