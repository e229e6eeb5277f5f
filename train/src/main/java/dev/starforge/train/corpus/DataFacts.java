package dev.starforge.train.corpus;

import java.util.Locale;

/**
 * Statistics of a split's documents at a context length. Documents are used, or not for one of three reasons; the counts add up
 * to all documents of the split.
 *
 * @param documents documents that are used, in whole or in part
 * @param lossTokens tokens that count in the loss in one epoch
 * @param tokens all tokens in one epoch, including context
 * @param divided documents longer than the context that were divided into windows
 * @param repeated tokens in two windows, since a window begins with the last token of the one before
 * @param tooLong documents longer than the context that cannot be divided
 * @param droppedLossTokens tokens of the documents that are too long which would count in the loss
 * @param withoutLoss documents in which no token counts in the loss
 * @param unselected documents with weight 0, which settings of the run exclude
 */
public record DataFacts(
        int context,
        int documents,
        long lossTokens,
        long tokens,
        int divided,
        long repeated,
        DocumentCount tooLong,
        long droppedLossTokens,
        DocumentCount withoutLoss,
        DocumentCount unselected) {

    /** A number of documents and of their tokens. */
    public record DocumentCount(int documents, long tokens) {
        static final DocumentCount NONE = new DocumentCount(0, 0);

        DocumentCount plus(int length) {
            return new DocumentCount(documents + 1, tokens + length);
        }
    }

    /** Number of documents that are too long. */
    public int dropped() {
        return tooLong.documents;
    }

    /** All documents of the split and their tokens. */
    public DocumentCount all() {
        return new DocumentCount(
                documents + tooLong.documents + withoutLoss.documents + unselected.documents,
                tokens - repeated + tooLong.tokens + withoutLoss.tokens + unselected.tokens);
    }

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
                        : String.format(
                                Locale.ROOT,
                                " (%,d of them divided into windows of %,d, which repeat %,d tokens)",
                                divided,
                                context,
                                repeated));
    }

    /** Describes how the tokens of the split divide into used and unused ones; empty if all documents are used. */
    public String describeUnused() {
        DocumentCount all = all();
        if (all.documents == documents) {
            return "";
        }
        return String.format(
                Locale.ROOT,
                "%,d tokens in %,d documents = %,d used%s%s%s",
                all.tokens,
                all.documents,
                tokens - repeated,
                unused(withoutLoss, "without a token that counts in the loss"),
                unused(unselected, "excluded by the settings of training"),
                unused(tooLong, "longer than the context"));
    }

    private static String unused(DocumentCount count, String why) {
        return count.documents == 0
                ? ""
                : String.format(
                        Locale.ROOT,
                        " + %,d in %,d %s %s",
                        count.tokens,
                        count.documents,
                        count.documents == 1 ? "document" : "documents",
                        why);
    }

    /** Describes the documents that are too long and how to keep them; empty if there are none. */
    public String describeDropped() {
        return dropped() == 0
                ? ""
                : String.format(
                        Locale.ROOT,
                        "%,d of %,d documents are longer than the context of %,d tokens and cannot be divided: they are "
                                + "dropped, with %,d tokens that count in the loss. Build the dataset for this context with "
                                + "--set samples.context_length=%d, shorten the documents, or raise model.context_window",
                        dropped(),
                        documents + dropped(),
                        context,
                        droppedLossTokens,
                        context);
    }
}
