package dev.starforge.data;

import java.util.List;

/** Documents that are in memory. */
record DocumentList(List<TokenDocument> documents, long tokens) implements TokenDocuments {
    static DocumentList of(List<TokenDocument> documents) {
        return new DocumentList(
                List.copyOf(documents),
                documents.stream().mapToLong(document -> document.ids().length).sum());
    }

    @Override
    public int count() {
        return documents.size();
    }

    @Override
    public int length(int document) {
        return documents.get(document).ids().length;
    }

    @Override
    public TokenDocument read(int document) {
        TokenDocument stored = documents.get(document);
        return new TokenDocument(
                stored.id(), stored.ids().clone(), stored.counted().clone());
    }

    @Override
    public void close() {}
}
