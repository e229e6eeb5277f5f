package dev.starforge.train.text;

import dev.starforge.model.generate.LoopDetector;
import dev.starforge.model.generate.StopStrings;
import dev.starforge.text.fim.SuffixStops;
import dev.starforge.text.tokenizer.CompletionDecodeStream;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.List;
import java.util.Optional;

/** Decodes a completion token by token, up to a stop string, and notices when it repeats itself. */
public final class Continuation {
    private final CompletionDecodeStream stream;
    private final StopStrings stops;
    private final LoopDetector loops = new LoopDetector();
    private final StringBuilder text = new StringBuilder();

    public Continuation(Tokenizer tokenizer, int[] prompt, List<String> stops) {
        this(tokenizer, HealedPrompt.asIs(prompt), stops);
    }

    public Continuation(Tokenizer tokenizer, HealedPrompt prompt, List<String> stops) {
        this(tokenizer, prompt, new StopStrings(stops));
    }

    /** Ends before text that repeats a suffix. */
    public Continuation(Tokenizer tokenizer, HealedPrompt prompt, SuffixStops stops) {
        this(tokenizer, prompt, new StopStrings(stops.strings(), stops.firstLine()));
    }

    private Continuation(Tokenizer tokenizer, HealedPrompt prompt, StopStrings stops) {
        this.stops = stops;
        stream = new CompletionDecodeStream(tokenizer, prompt);
    }

    /** Adds a token. Returns the text that later tokens cannot change. */
    public String push(int id) {
        return keep(stops.push(stream.push(id)));
    }

    /** Returns the text held back for possible further tokens. */
    public String finish() {
        if (stopSequence().isPresent()) {
            return "";
        }
        String certain = stops.push(stream.finish());
        return keep(certain + stops.finish());
    }

    public Optional<String> stopSequence() {
        return stops.matched();
    }

    /** Returns true if the text ends in a loop. */
    public boolean isLooping() {
        return loops.isLooping();
    }

    public String text() {
        return text.toString();
    }

    private String keep(String certain) {
        text.append(certain);
        loops.push(certain);
        return certain;
    }
}
