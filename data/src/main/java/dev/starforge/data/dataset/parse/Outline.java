package dev.starforge.data.dataset.parse;

import java.util.List;

/**
 * What a source file declares, in the order of the file.
 *
 * @param parsed by a grammar, not guessed from braces and indentation
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
     * A declaration, or a statement of one.
     *
     * @param from first byte
     * @param to the byte after the last
     * @param body where its body begins; {@code to} where it has none
     * @param parent index of the enclosing symbol, -1 at the top
     */
    public record Symbol(SymbolKind kind, String name, int from, int to, int body, int parent) {}

    /** The name with those around it. */
    public String qualifiedName(Symbol symbol) {
        return symbol.parent < 0 ? symbol.name : qualifiedName(symbols.get(symbol.parent)) + "." + symbol.name;
    }
}
