package dev.starforge.grammar;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.treesitter.TSLanguage;
import org.treesitter.TSNode;
import org.treesitter.TSParser;
import org.treesitter.TSTree;
import org.treesitter.TSTreeCursor;
import org.treesitter.TreeSitterC;
import org.treesitter.TreeSitterCpp;
import org.treesitter.TreeSitterGo;
import org.treesitter.TreeSitterJava;
import org.treesitter.TreeSitterJavascript;
import org.treesitter.TreeSitterPython;
import org.treesitter.TreeSitterRust;
import org.treesitter.TreeSitterTsx;
import org.treesitter.TreeSitterTypescript;

/**
 * Lists the declarations of source files; a server on standard input and output. It runs in a child process because grammars
 * are native code and files are untrusted: a crash ends only the child.
 *
 * <p>A request is the name of a grammar and a text, each as an int length and UTF-8 bytes. The response is an int count
 * followed by that number of symbols: kind (byte), start, end, start of the body or -1, index of the enclosing symbol or -1
 * (ints), and name. Kinds are 0 import, 1 type, 2 function, 3 block. A count of -1 means that the grammar is unknown. Blocks,
 * the statements of functions, are included only if the name starts with {@code +}: each needs calls into native code, which
 * took half of the time. If the name starts with {@code ?}, the response is the number of syntax errors.
 */
final class GrammarMain {
    private static final int IMPORT = 0;
    private static final int TYPE = 1;
    private static final int FUNCTION = 2;
    private static final int BLOCK = 3;

    private static final int MAX_SYMBOLS = 20_000;
    private static final int MAX_DEPTH = 200;

    private static final Set<String> IMPORTS = Set.of(
            "import_declaration",
            "import_statement",
            "import_from_statement",
            "use_declaration",
            "preproc_include",
            "package_declaration",
            "package_clause");
    private static final Set<String> TYPES = Set.of(
            "class_declaration",
            "interface_declaration",
            "enum_declaration",
            "record_declaration",
            "annotation_type_declaration",
            "class_definition",
            "struct_item",
            "enum_item",
            "trait_item",
            "impl_item",
            "union_item",
            "mod_item",
            "type_declaration",
            "struct_specifier",
            "class_specifier",
            "enum_specifier",
            "union_specifier",
            "namespace_definition",
            "type_alias_declaration",
            "abstract_class_declaration");
    private static final Set<String> FUNCTIONS = Set.of(
            "function_definition",
            "function_declaration",
            "generator_function_declaration",
            "method_declaration",
            "constructor_declaration",
            "compact_constructor_declaration",
            "method_definition",
            "function_item",
            "function_signature_item");
    private static final Set<String> NAMES = Set.of(
            "identifier", "type_identifier", "field_identifier", "property_identifier", "qualified_identifier", "name");

    /** The role of a node type. Type names come from native code, so each is looked up once per grammar. */
    private enum Role {
        IMPORT,
        WRAPPER,
        TYPE,
        /** A type declaration if it has a body, otherwise a reference to a type. */
        SPECIFIER,
        FUNCTION,
        /** A variable declaration, whose value may be a function. */
        VARIABLE,
        OTHER,
        /** A bracket or keyword without children. */
        TOKEN
    }

    private record FoundSymbol(int kind, int from, int to, int body, int parent, String name) {}

    private final TSParser parser = new TSParser();
    private final Map<String, TSLanguage> languages = new HashMap<>();
    private final Map<String, Map<Integer, Role>> rolesOfGrammars = new HashMap<>();
    private Map<Integer, Role> roles = Map.of();
    private final List<FoundSymbol> symbols = new ArrayList<>();
    private byte[] text = {};
    private boolean blocks;

    private GrammarMain() {}

    public static void main(String[] args) throws IOException {
        new GrammarMain()
                .serve(
                        new DataInputStream(new BufferedInputStream(System.in, 1 << 16)),
                        new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16)));
    }

    private void serve(DataInputStream in, DataOutputStream out) throws IOException {
        while (true) {
            String grammar;
            try {
                grammar = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
                text = in.readNBytes(in.readInt());
            } catch (EOFException closed) {
                return;
            }
            symbols.clear();
            boolean counting = grammar.startsWith("?");
            blocks = grammar.startsWith("+");
            grammar = counting || blocks ? grammar.substring(1) : grammar;
            TSLanguage language = languages.computeIfAbsent(grammar, GrammarMain::language);
            if (language == null) {
                out.writeInt(-1);
            } else if (counting) {
                parser.setLanguage(language);
                try (TSTree tree = parser.parseString(null, new String(text, StandardCharsets.UTF_8))) {
                    out.writeInt(errors(tree.getRootNode(), 0));
                }
            } else {
                parser.setLanguage(language);
                roles = rolesOfGrammars.computeIfAbsent(grammar, name -> new HashMap<>());
                try (TSTree tree = parser.parseString(null, new String(text, StandardCharsets.UTF_8));
                        TSTreeCursor cursor = new TSTreeCursor(tree.getRootNode())) {
                    visitChildren(cursor, -1, 0);
                }
                out.writeInt(symbols.size());
                for (FoundSymbol symbol : symbols) {
                    out.writeByte(symbol.kind);
                    out.writeInt(symbol.from);
                    out.writeInt(symbol.to);
                    out.writeInt(symbol.body);
                    out.writeInt(symbol.parent);
                    out.writeUTF(symbol.name.length() > 200 ? symbol.name.substring(0, 200) : symbol.name);
                }
            }
            out.flush();
        }
    }

    /** Counts error and missing nodes; a subtree that is too deep counts as one. */
    private static int errors(TSNode node, int depth) {
        if (node.isError() || node.isMissing()) {
            return 1;
        }
        if (!node.hasError() || depth > MAX_DEPTH) {
            return node.hasError() ? 1 : 0;
        }
        int errors = 0;
        for (int i = 0; i < node.getChildCount(); i++) {
            errors += errors(node.getChild(i), depth + 1);
        }
        return errors;
    }

    private static @Nullable TSLanguage language(String name) {
        return switch (name) {
            case "c" -> new TreeSitterC();
            case "cpp" -> new TreeSitterCpp();
            case "go" -> new TreeSitterGo();
            case "java" -> new TreeSitterJava();
            case "javascript" -> new TreeSitterJavascript();
            case "python" -> new TreeSitterPython();
            case "rust" -> new TreeSitterRust();
            case "tsx" -> new TreeSitterTsx();
            case "typescript" -> new TreeSitterTypescript();
            default -> null;
        };
    }

    /** Visits the children of the cursor's node and returns the cursor to it. */
    private void visitChildren(TSTreeCursor cursor, int parent, int depth) {
        if (depth > MAX_DEPTH || !cursor.gotoFirstChild()) {
            return;
        }
        do {
            TSNode node = cursor.currentNode();
            visit(cursor, node, role(node), parent, depth + 1);
        } while (symbols.size() < MAX_SYMBOLS && cursor.gotoNextSibling());
        cursor.gotoParent();
    }

    private void visit(TSTreeCursor cursor, TSNode node, Role role, int parent, int depth) {
        switch (role) {
            case TOKEN -> {}
            case IMPORT -> symbols.add(new FoundSymbol(IMPORT, node.getStartByte(), node.getEndByte(), -1, parent, ""));
            case WRAPPER -> visitWrapper(cursor, node, parent, depth);
            default -> {
                int kind = kind(node, role);
                if (kind == TYPE) {
                    add(kind, node, node, body(node), parent);
                    visitChildren(cursor, symbols.size() - 1, depth);
                } else if (kind == FUNCTION) {
                    TSNode body = body(node);
                    add(kind, node, node, body, parent);
                    visitStatements(body, symbols.size() - 1, depth);
                } else {
                    visitChildren(cursor, parent, depth);
                }
            }
        }
    }

    private void visitWrapper(TSTreeCursor cursor, TSNode node, int parent, int depth) {
        TSNode inner = last(node);
        int kind = kind(inner, role(inner));
        if (kind < 0) {
            visitChildren(cursor, parent, depth);
            return;
        }
        TSNode body = body(inner);
        add(kind, node, inner, body, parent);
        try (TSTreeCursor within = new TSTreeCursor(kind == TYPE && !body.isNull() ? body : inner)) {
            visitChildren(within, symbols.size() - 1, depth);
        }
    }

    /** Visits the statements of a function: declarations, and blocks if requested. */
    private void visitStatements(TSNode body, int parent, int depth) {
        if (depth > MAX_DEPTH || body.isNull()) {
            return;
        }
        try (TSTreeCursor cursor = new TSTreeCursor(body)) {
            boolean more = cursor.gotoFirstChild();
            while (more && symbols.size() < MAX_SYMBOLS) {
                TSNode statement = cursor.currentNode();
                Role role = role(statement);
                if (kind(statement, role) >= 0) {
                    visit(cursor, statement, role, parent, depth + 1);
                } else if (blocks && role != Role.TOKEN) {
                    symbols.add(
                            new FoundSymbol(BLOCK, statement.getStartByte(), statement.getEndByte(), -1, parent, ""));
                }
                more = cursor.gotoNextSibling();
            }
        }
    }

    private Role role(TSNode node) {
        int symbol = node.getSymbol();
        Role known = roles.get(symbol);
        if (known == null) {
            known = node.isNamed() ? role(node.getType()) : Role.TOKEN;
            roles.put(symbol, known);
        }
        return known;
    }

    private static Role role(String type) {
        if (IMPORTS.contains(type)) {
            return Role.IMPORT;
        }
        if (FUNCTIONS.contains(type)) {
            return Role.FUNCTION;
        }
        if (TYPES.contains(type)) {
            return type.endsWith("_specifier") ? Role.SPECIFIER : Role.TYPE;
        }
        return switch (type) {
            case "decorated_definition", "export_statement" -> Role.WRAPPER;
            case "lexical_declaration", "variable_declaration" -> Role.VARIABLE;
            default -> Role.OTHER;
        };
    }

    private static int kind(TSNode node, Role role) {
        return switch (role) {
            case FUNCTION -> FUNCTION;
            case TYPE -> TYPE;
            case SPECIFIER -> node.getChildByFieldName("body").isNull() ? -1 : TYPE;
            case VARIABLE -> holdsFunction(node) ? FUNCTION : -1;
            case IMPORT, WRAPPER, OTHER, TOKEN -> -1;
        };
    }

    private static boolean holdsFunction(TSNode node) {
        TSNode declared = node.getNamedChildCount() == 1 ? node.getNamedChild(0) : node;
        TSNode value = declared.getChildByFieldName("value");
        return !value.isNull()
                && (value.getType().equals("arrow_function") || value.getType().startsWith("function"));
    }

    private static TSNode last(TSNode node) {
        int count = node.getNamedChildCount();
        return count == 0 ? node : node.getNamedChild(count - 1);
    }

    /** The body of a declaration, or tree-sitter's null node. */
    private static TSNode body(TSNode node) {
        TSNode body = node.getChildByFieldName("body");
        if (body.isNull() && node.getNamedChildCount() == 1) {
            TSNode value = node.getNamedChild(0).getChildByFieldName("value");
            body = value.isNull() ? value : value.getChildByFieldName("body");
        }
        return body;
    }

    private void add(int kind, TSNode whole, TSNode named, TSNode body, int parent) {
        symbols.add(new FoundSymbol(
                kind,
                whole.getStartByte(),
                whole.getEndByte(),
                body.isNull() ? -1 : body.getStartByte(),
                parent,
                name(named, 0)));
    }

    private String name(TSNode node, int depth) {
        for (String field : List.of("name", "declarator", "type")) {
            TSNode child = node.getChildByFieldName(field);
            if (!child.isNull()) {
                if (field.equals("name") || NAMES.contains(child.getType())) {
                    return text(child);
                }
                String inner = depth > 8 ? "" : name(child, depth + 1);
                if (!inner.isEmpty()) {
                    return inner;
                }
            }
        }
        if (NAMES.contains(node.getType())) {
            return text(node);
        }
        return node.getNamedChildCount() > 0 && depth < 4 ? name(node.getNamedChild(0), depth + 1) : "";
    }

    private String text(TSNode node) {
        return new String(text, node.getStartByte(), node.getEndByte() - node.getStartByte(), StandardCharsets.UTF_8);
    }
}
