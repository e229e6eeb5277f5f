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
}
