package dev.starforge.train.text;

import dev.starforge.data.TextStream;
import dev.starforge.data.Tokenizer;
import dev.starforge.model.generate.StopStrings;
import java.util.List;
import java.util.Optional;

/**
 * The text that follows a prompt, token by token, up to a stop string. The decoder sees the prompt first: a first word has
 * no space before it in some vocabularies, and a continuation does not begin with a first word.
 */
public final class Continuation {
    private final TextStream stream;
    private final StopStrings stops;
    private final StringBuilder text = new StringBuilder();
    private String pendingPrompt;

    public Continuation(Tokenizer tokenizer, int[] prompt, List<String> stops) {
        this.stops = new StopStrings(stops);
        stream = tokenizer.stream(true);
        int shown = 0;
        for (int id : prompt) {
            shown += stream.push(id).length();
        }
        pendingPrompt = tokenizer.decode(prompt, true).substring(shown);
    }

    /** Takes a token; returns the text that is now certain. */
    public String push(int id) {
        return keep(stops.push(withoutPrompt(stream.push(id))));
    }

    /** The text that waited for more tokens. */
    public String finish() {
        if (stopSequence().isPresent()) {
            return "";
        }
        String certain = stops.push(withoutPrompt(stream.finish()));
        return keep(certain + stops.finish());
    }

    public Optional<String> stopSequence() {
        return stops.matched();
    }

    public String text() {
        return text.toString();
    }

    /** A decoder may hold the prompt's last characters back until it sees what follows. */
    private String withoutPrompt(String piece) {
        if (piece.isEmpty() || pendingPrompt.isEmpty()) {
            return piece;
        }
        String own = piece.startsWith(pendingPrompt) ? piece.substring(pendingPrompt.length()) : piece;
        pendingPrompt = "";
        return own;
    }

    private String keep(String certain) {
        text.append(certain);
        return certain;
    }
}
