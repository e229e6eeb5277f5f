package dev.starforge.train.eval;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Stream;

/**
 * Completes prompts and reports the parse rate: the share of completions that fit the grammar of their language. A
 * completion that ends at the token limit is cut to its last whole line, and open brackets are closed before parsing. A
 * completion that is empty then counts as not parsed.
 */
public final class BehaviouralEval {
    /** Prompts that ask for a definition whose first lines any model of the language should get right. */
    private static final Map<String, List<String>> KNOWN = Map.of(
            "java",
            List.of(
                    "/** The largest of some numbers. */\nstatic int largest(int[] numbers) {\n",
                    "public final class Stack<T> {\n    private final List<T> items = new ArrayList<>();\n\n",
                    "/** Reads a file line by line and counts its words. */\n"
                            + "static Map<String, Integer> count(Path file) throws IOException {\n"),
            "python",
            List.of(
                    "def fibonacci(n):\n    \"\"\"The first n numbers of Fibonacci.\"\"\"\n",
                    "class Stack:\n    def __init__(self):\n        self.items = []\n\n",
                    "def count_words(path):\n    \"\"\"How often each word is in a file.\"\"\"\n"),
            "rust",
            List.of(
                    "/// The largest of some numbers.\nfn largest(numbers: &[i32]) -> Option<i32> {\n",
                    "pub struct Stack<T> {\n    items: Vec<T>,\n}\n\nimpl<T> Stack<T> {\n",
                    "fn read_config(path: &Path) -> Result<Config, Error> {\n"),
            "go",
            List.of(
                    "package main\n\n"
                            + "// largest gives the largest of some numbers.\n"
                            + "func largest(numbers []int) int {\n",
                    "package main\n\ntype Stack struct {\n\titems []int\n}\n\nfunc (s *Stack) Push(item int) {\n",
                    "package main\n\nfunc countWords(path string) (map[string]int, error) {\n"),
            "c",
            List.of(
                    "/* The largest of some numbers. */\nint largest(const int *numbers, int count) {\n",
                    "char *copy_string(const char *text) {\n",
                    "struct node {\n"
                            + "    int value;\n"
                            + "    struct node *next;\n"
                            + "};\n\n"
                            + "void free_list(struct node *head) {\n"),
            "cpp",
            List.of(
                    "// The largest of some numbers.\nint largest(const std::vector<int> &numbers) {\n",
                    "template <typename T>\nclass Stack {\npublic:\n",
                    "std::map<std::string, int> count_words(std::istream &in) {\n"),
            "javascript",
            List.of(
                    "// The largest of some numbers.\nfunction largest(numbers) {\n",
                    "class Stack {\n  constructor() {\n    this.items = [];\n  }\n\n",
                    "async function fetchJson(url) {\n"),
            "typescript",
            List.of(
                    "// The largest of some numbers.\nfunction largest(numbers: number[]): number {\n",
                    "class Stack<T> {\n  private items: T[] = [];\n\n",
                    "async function fetchJson(url: string): Promise<unknown> {\n"));

    private static final int LANGUAGES = 3;

    private BehaviouralEval() {}

    /** A prompt and its language; the language is empty if it is unknown. */
    record Prompt(String language, String text) {}

    /** The prompts of the settings, or else default prompts for the most frequent languages. */
    static List<Prompt> prompts(RunConfig config, Map<String, Long> files) {
        List<String> languages = files.entrySet().stream()
                .filter(entry -> KNOWN.containsKey(entry.getKey()))
                .sorted(Map.Entry.<String, Long>comparingByValue(Comparator.reverseOrder())
                        .thenComparing(Map.Entry.comparingByKey()))
                .map(Map.Entry::getKey)
                .limit(LANGUAGES)
                .toList();
        List<String> given = config.get(Keys.PROMPTS);
        if (given.isEmpty()) {
            return languages.stream()
                    .flatMap(language ->
                            KNOWN.getOrDefault(language, List.of()).stream().map(text -> new Prompt(language, text)))
                    .toList();
        }
        String language = !config.get(Keys.PROMPT_LANGUAGE).equals("null")
                ? config.get(Keys.PROMPT_LANGUAGE)
                : languages.stream().findFirst().orElse("");
        return given.stream().map(text -> new Prompt(language, text)).toList();
    }

    /** The languages with a grammar. */
    public static Stream<String> languages() {
        return KNOWN.keySet().stream().sorted();
    }

    /** Returns whether prompt and completion parse; empty if there is no grammar. */
    static Optional<Boolean> parses(Prompt prompt, String written, boolean cut, Evaluation.Tools tools) {
        if (prompt.language.isEmpty()) {
            return Optional.empty();
        }
        int end = written.lastIndexOf('\n');
        String kept = cut ? written.substring(0, end + 1) : written;
        String whole = prompt.text + kept;
        OptionalInt errors = tools.errors(prompt.language, whole + closing(prompt.language, whole));
        return errors.isPresent() ? Optional.of(errors.getAsInt() == 0 && !kept.isBlank()) : Optional.empty();
    }

    /** The closing brackets that complete a text, ignoring brackets in strings and comments. */
    static String closing(String language, String text) {
        boolean python = language.equals("python");
        Deque<Character> open = new ArrayDeque<>();
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (python ? c == '#' : text.startsWith("//", i)) {
                i = lineEnd(text, i);
            } else if (!python && text.startsWith("/*", i)) {
                int end = text.indexOf("*/", i + 2);
                i = end < 0 ? text.length() : end + 1;
            } else if (python && text.startsWith("\"\"\"", i)) {
                int end = text.indexOf("\"\"\"", i + 3);
                i = end < 0 ? text.length() : end + 2;
            } else if (c == '"' || c == '`' || c == '\'' && !language.equals("rust")) {
                i = quoteEnd(text, i, c);
            } else if ("([{".indexOf(c) >= 0) {
                open.push(")]}".charAt("([{".indexOf(c)));
            } else if (!open.isEmpty() && open.peek() == c) {
                open.pop();
            }
        }
        StringBuilder closing = new StringBuilder();
        open.forEach(closing::append);
        if (language.equals("cpp") && !closing.isEmpty() && text.contains("class ")) {
            closing.append(';'); // required after a class, permitted after a block
        }
        return closing.toString();
    }

    private static int lineEnd(String text, int from) {
        int end = text.indexOf('\n', from);
        return end < 0 ? text.length() : end;
    }

    private static int quoteEnd(String text, int from, char quote) {
        for (int i = from + 1; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '\\') {
                i++;
            } else if (c == quote || c == '\n' && quote != '`') {
                return i;
            }
        }
        return text.length();
    }
}
