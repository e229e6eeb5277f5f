package dev.starforge.data.dataset.parse;

import java.util.List;

/**
 * The declarations of a source file, in order.
 *
 * @param parsed true if a grammar parsed the file; false if declarations were guessed from braces and indentation
 */
public record Outline(List<Symbol> symbols, boolean parsed) {
    public static final Outline NOTHING = new Outline(List.of(), false);

    public enum SymbolKind {
        IMPORT,
        TYPE,
        FUNCTION,
        BLOCK
    }

    /**
     * A declaration, or a statement in one.
     *
     * @param from first byte
     * @param to the byte after the last
     * @param body start of the body; {@code to} if it has none
     * @param parent index of the enclosing symbol, -1 at the top
     */
    public record Symbol(SymbolKind kind, String name, int from, int to, int body, int parent) {}

    /** The name qualified by those of the enclosing symbols. */
    public String qualifiedName(Symbol symbol) {
        return symbol.parent < 0 ? symbol.name : qualifiedName(symbols.get(symbol.parent)) + "." + symbol.name;
    }
}
