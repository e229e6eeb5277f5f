package dev.starforge.data;

/**
 * A tokenized document and its loss mask.
 *
 * @param id the stable, unique id of the sample
 * @param counted for each token, true if it counts in the loss as a target
 */
public record TokenDocument(String id, int[] ids, boolean[] counted) {
    public TokenDocument {
        if (id.isEmpty()) {
            throw new IllegalArgumentException("document: an empty id");
        }
        if (ids.length != counted.length) {
            throw new IllegalArgumentException(
                    "document " + id + ": " + ids.length + " ids, but the loss mask has " + counted.length + " places");
        }
    }

    /** Number of tokens that are predicted and count in the loss; the first token is never predicted. */
    public int lossTokens() {
        int count = 0;
        for (int i = 1; i < counted.length; i++) {
            count += counted[i] ? 1 : 0;
        }
        return count;
    }
}
