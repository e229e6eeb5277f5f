package dev.starforge.data;

/**
 * A tokenized text and what of it is to be learned.
 *
 * @param id the stable name of the sample; no two samples share one
 * @param counted for each id, whether it counts in the loss when it is the one to be predicted
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
