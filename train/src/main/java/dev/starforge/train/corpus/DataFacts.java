package dev.starforge.train.corpus;

import java.util.Locale;

/**
 * How many documents of a split there are and what became of them at a context.
 *
 * @param documents of which something is read
 * @param lossTokens that count in the loss in one pass
 * @param tokens of one pass, those that are only context included
 * @param divided documents longer than the context that were divided into windows
 * @param dropped documents longer than the context that depend on their beginning, and were left out
 * @param droppedLossTokens what of these would have counted
 */
public record DataFacts(
        int context, int documents, long lossTokens, long tokens, int divided, int dropped, long droppedLossTokens) {

    /** What is used, tokens that count first. */
    public String used() {
        return String.format(
                Locale.ROOT,
                "%,d tokens count in the loss, of %,d tokens in %,d documents%s",
                lossTokens,
                tokens,
                documents,
                divided == 0
                        ? ""
                        : String.format(Locale.ROOT, " (%,d of them divided into windows of %,d)", divided, context));
    }

    /** What is not used and how it could be; empty where everything is. */
    public String lost() {
        return dropped == 0
                ? ""
                : String.format(
                        Locale.ROOT,
                        "%,d of %,d documents are longer than the context of %,d tokens and depend on their beginning: they are "
                                + "left out, and %,d tokens of the loss with them. Build the dataset for this context with "
                                + "--set samples.context_length=%d, shorten the texts, or raise model.context_window",
                        dropped,
                        documents + dropped,
                        context,
                        droppedLossTokens,
                        context);
    }
}
