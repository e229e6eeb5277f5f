package dev.starforge.data.dataset.parse;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/**
 * The language of a file, recognized by the file name.
 *
 * @param grammar name of its tree-sitter grammar; empty if there is none
 */
public record Language(String name, String grammar, ContentType kind) {
    public enum ContentType {
        CODE,
        DOCUMENTATION,
        CONFIGURATION,
        DATA
    }

    public static final Language UNKNOWN = new Language("text", "", ContentType.CODE);

    private static final Map<String, Language> BY_EXTENSION = new HashMap<>();

    static {
        code("java", "java", "java");
        code("python", "python", "py", "pyi");
        code("rust", "rust", "rs");
        code("go", "go", "go");
        code("c", "c", "c", "h");
        code("cpp", "cpp", "cc", "cpp", "cxx", "hpp", "hh", "hxx", "inl", "cu", "cuh");
        code("javascript", "javascript", "js", "mjs", "cjs", "jsx");
        code("typescript", "typescript", "ts", "mts", "cts");
        code("tsx", "tsx", "tsx");
        code("kotlin", "", "kt", "kts");
        code("scala", "", "scala");
        code("csharp", "", "cs");
        code("ruby", "", "rb");
        code("php", "", "php");
        code("swift", "", "swift");
        code("shell", "", "sh", "bash", "zsh");
        code("perl", "", "pl", "pm");
        code("lua", "", "lua");
        code("r", "", "r");
        code("julia", "", "jl");
        code("haskell", "", "hs");
        code("ocaml", "", "ml", "mli");
        code("clojure", "", "clj", "cljs");
        code("elixir", "", "ex", "exs");
        code("erlang", "", "erl");
        code("dart", "", "dart");
        code("groovy", "", "groovy", "gradle");
        code("metal", "", "metal");
        code("sql", "", "sql");
        code("html", "", "html", "htm", "vue", "svelte");
        code("css", "", "css", "scss", "less");
        code("make", "", "mk");
        code("cmake", "", "cmake");
        code("protobuf", "", "proto");
        code("zig", "", "zig");
        other(ContentType.DOCUMENTATION, "markdown", "md", "markdown");
        other(ContentType.DOCUMENTATION, "restructuredtext", "rst");
        other(ContentType.DOCUMENTATION, "asciidoc", "adoc");
        other(ContentType.DOCUMENTATION, "text", "txt");
        other(ContentType.CONFIGURATION, "yaml", "yml", "yaml");
        other(ContentType.CONFIGURATION, "toml", "toml");
        other(ContentType.CONFIGURATION, "ini", "ini", "cfg", "conf", "editorconfig");
        other(ContentType.CONFIGURATION, "properties", "properties");
        other(ContentType.CONFIGURATION, "xml", "xml", "xsd", "pom");
        other(ContentType.CONFIGURATION, "json", "json", "jsonc");
        other(ContentType.DATA, "csv", "csv", "tsv");
        other(ContentType.DATA, "jsonl", "jsonl", "ndjson");
        other(ContentType.DATA, "svg", "svg");
        other(ContentType.DATA, "data", "dat", "geojson", "log");
    }

    private static void code(String name, String grammar, String... extensions) {
        for (String extension : extensions) {
            BY_EXTENSION.put(extension, new Language(name, grammar, ContentType.CODE));
        }
    }

    private static void other(ContentType kind, String name, String... extensions) {
        for (String extension : extensions) {
            BY_EXTENSION.put(extension, new Language(name, "", kind));
        }
    }

    public static Language of(String path) {
        String name = path.substring(path.lastIndexOf('/') + 1).toLowerCase(Locale.ROOT);
        if (name.equals("dockerfile") || name.equals("makefile")) {
            return new Language(name, "", ContentType.CONFIGURATION);
        }
        return BY_EXTENSION.getOrDefault(name.substring(name.lastIndexOf('.') + 1), UNKNOWN);
    }

    /** Returns true for data and configuration, whose files have a lower limit of lines. */
    public boolean isData() {
        return kind == ContentType.DATA || kind == ContentType.CONFIGURATION;
    }
}
