package dev.starforge.train.corpus;

import java.util.Locale;

/**
 * Statistics of a split's documents at a context length.
 *
 * @param documents documents that are used, in whole or in part
 * @param lossTokens tokens that count in the loss in one epoch
 * @param tokens all tokens in one epoch, including context
 * @param divided documents longer than the context that were divided into windows
 * @param dropped documents longer than the context that cannot be divided
 * @param droppedLossTokens tokens of the dropped documents that would count in the loss
 */
public record DataFacts(
        int context, int documents, long lossTokens, long tokens, int divided, int dropped, long droppedLossTokens) {

    /** Describes the data that is used. */
    public String describeUsed() {
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

    /** Describes the data that is dropped and how to keep it; empty if nothing is dropped. */
    public String describeDropped() {
        return dropped == 0
                ? ""
                : String.format(
                        Locale.ROOT,
                        "%,d of %,d documents are longer than the context of %,d tokens and cannot be divided: they are "
                                + "dropped, with %,d tokens that count in the loss. Build the dataset for this context with "
                                + "--set samples.context_length=%d, shorten the documents, or raise model.context_window",
                        dropped,
                        documents + dropped,
                        context,
                        droppedLossTokens,
                        context);
    }
}
