package dev.starforge.conformance;

import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.TokenSink;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.IntPredicate;

/** What came of a request. What must not happen, such as a token after the end, is kept to be seen. */
final class CollectingSink implements TokenSink {
    final List<GeneratedToken> tokens = new CopyOnWriteArrayList<>();
    final List<FinishReason> endings = new CopyOnWriteArrayList<>();
    private final CompletableFuture<FinishReason> ended = new CompletableFuture<>();
    private final IntPredicate goesOn;

    /** @param goesOn asked with the number of tokens so far */
    CollectingSink(IntPredicate goesOn) {
        this.goesOn = goesOn;
    }

    CollectingSink() {
        this(count -> true);
    }

    @Override
    public boolean token(GeneratedToken token) {
        tokens.add(token);
        return goesOn.test(tokens.size());
    }

    @Override
    public void end(FinishReason ending) {
        endings.add(ending);
        ended.complete(ending);
    }

    /** How it ended; waits for it. */
    FinishReason ending() {
        try {
            return ended.get(20, TimeUnit.SECONDS);
        } catch (TimeoutException | InterruptedException | ExecutionException never) {
            throw new AssertionError("no end after 20 s and " + tokens.size() + " tokens", never);
        }
    }

    int[] ids() {
        return tokens.stream().mapToInt(GeneratedToken::id).toArray();
    }

    /** The tokens of a text that has come to its own end. */
    int[] finished() {
        if (ending() instanceof FinishReason.Completed) {
            return ids();
        }
        throw new AssertionError("ended by " + endings);
    }
}
