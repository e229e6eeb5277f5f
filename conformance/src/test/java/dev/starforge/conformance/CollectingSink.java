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

/** Collects the events of a request, including invalid ones such as a token after the end. */
final class CollectingSink implements TokenSink {
    final List<GeneratedToken> tokens = new CopyOnWriteArrayList<>();
    final List<FinishReason> endings = new CopyOnWriteArrayList<>();
    private final CompletableFuture<FinishReason> ended = new CompletableFuture<>();
    private final IntPredicate goesOn;

    /** @param goesOn returns false to stop, given the number of tokens so far */
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

    /** Waits for the end. Returns the finish reason. */
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

    /** The tokens of a sequence that was not cancelled. */
    int[] finished() {
        if (ending() instanceof FinishReason.Completed) {
            return ids();
        }
        throw new AssertionError("ended by " + endings);
    }
}
