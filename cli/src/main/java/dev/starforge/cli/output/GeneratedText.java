package dev.starforge.cli.output;

import dev.starforge.model.generate.StopReason;
import dev.starforge.train.text.Continuation;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;

/** Collects and prints generated tokens, and stops at a stop token or stop string. */
public final class GeneratedText implements IntPredicate {
    /** Output during generation. */
    public enum Display {
        TEXT,
        IDS,
        NOTHING
    }

    private final Display shown;
    private final PrintWriter out;
    private final Set<Integer> stopIds;
    private final Optional<Continuation> continuation;
    private final List<Integer> ids = new ArrayList<>();
    private StopReason reason = StopReason.MAX_TOKENS;

    /** Without a tokenizer. */
    public GeneratedText(Display shown, PrintWriter out, Set<Integer> stopIds) {
        this(shown, out, stopIds, Optional.empty());
    }

    public GeneratedText(Display shown, PrintWriter out, Set<Integer> stopIds, Continuation continuation) {
        this(shown, out, stopIds, Optional.of(continuation));
    }

    private GeneratedText(Display shown, PrintWriter out, Set<Integer> stopIds, Optional<Continuation> continuation) {
        this.shown = shown;
        this.out = out;
        this.stopIds = Set.copyOf(stopIds);
        this.continuation = continuation;
    }

    /** Adds a token. Returns false to stop the generation. */
    @Override
    public boolean test(int id) {
        ids.add(id);
        String text = "";
        if (stopIds.contains(id)) {
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
        boolean readable = shown == Display.NOTHING || !out.checkError(); // flushes
        return readable && reason == StopReason.MAX_TOKENS;
    }

    /** Prints pending text at the end of the generation. */
    public void finish() {
        String rest = continuation.map(Continuation::finish).orElse("");
        if (stopSequence().isPresent()) {
            reason = StopReason.STOP_SEQUENCE;
        }
        if (shown == Display.TEXT) {
            out.print(rest);
        }
        if (shown != Display.NOTHING) {
            out.println();
            out.flush();
        }
    }

    public List<Integer> ids() {
        return ids;
    }

    /** The generated text, if there is a tokenizer. */
    public Optional<String> text() {
        return continuation.map(Continuation::text);
    }

    public StopReason reason() {
        return reason;
    }

    public Optional<String> stopSequence() {
        return continuation.flatMap(Continuation::stopSequence);
    }
}
