package dev.starforge.text.config;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Optional;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.common.Anchor;
import org.snakeyaml.engine.v2.composer.Composer;
import org.snakeyaml.engine.v2.events.AliasEvent;
import org.snakeyaml.engine.v2.events.CollectionEndEvent;
import org.snakeyaml.engine.v2.events.CollectionStartEvent;
import org.snakeyaml.engine.v2.events.Event;
import org.snakeyaml.engine.v2.exceptions.ParserException;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.parser.Parser;
import org.snakeyaml.engine.v2.parser.ParserImpl;
import org.snakeyaml.engine.v2.scanner.StreamReader;
import org.snakeyaml.engine.v2.schema.CoreSchema;

/** Parses untrusted YAML 1.2 into nodes with line numbers. */
public final class Yaml {
    /** Limits nesting: the composer recurses for each level and would overflow the stack. */
    private static final int MAX_DEPTH = 64;

    private Yaml() {}

    /**
     * Parses the single document of the input; empty if there is none.
     *
     * @throws org.snakeyaml.engine.v2.exceptions.YamlEngineException if the input is not YAML or nested too deeply
     */
    public static Optional<Node> compose(String label, String text) {
        LoadSettings settings = LoadSettings.builder()
                .setLabel(label)
                .setSchema(new CoreSchema())
                .setAllowDuplicateKeys(false)
                .setMaxAliasesForCollections(10)
                .build();
        Parser parser = new ParserImpl(settings, new StreamReader(settings, text));
        return new Composer(settings, new Shallow(parser)).getSingleNode();
    }

    /** A double-quoted YAML scalar that parses back to the same string. */
    public static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        text.codePoints().forEach(c -> {
            switch (c) {
                case '"' -> quoted.append("\\\"");
                case '\\' -> quoted.append("\\\\");
                case '\n' -> quoted.append("\\n");
                case '\t' -> quoted.append("\\t");
                default -> {
                    if (Character.isISOControl(c) || Character.getType(c) == Character.LINE_SEPARATOR || c == 0x2029) {
                        quoted.append(String.format("\\u%04x", c));
                    } else {
                        quoted.appendCodePoint(c);
                    }
                }
            }
        });
        return quoted.append('"').toString();
    }

    /** Checks the nesting depth of events before nodes are built from them. */
    private static final class Shallow implements Parser {
        private final Parser parser;
        private final Deque<String> open = new ArrayDeque<>();

        Shallow(Parser parser) {
            this.parser = parser;
        }

        @Override
        public boolean checkEvent(Event.ID choice) {
            return parser.checkEvent(choice);
        }

        @Override
        public Event peekEvent() {
            return parser.peekEvent();
        }

        @Override
        public boolean hasNext() {
            return parser.hasNext();
        }

        @Override
        public Event next() {
            Event event = parser.next();
            switch (event) {
                case CollectionStartEvent start ->
                    open.push(start.getAnchor().map(Anchor::getValue).orElse(""));
                case CollectionEndEvent _ -> open.pop();
                case AliasEvent alias
                when open.contains(alias.getAlias().getValue()) ->
                    throw new ParserException(
                            "*" + alias.getAlias() + " is inside what it stands for", event.getStartMark());
                default -> {}
            }
            if (open.size() > MAX_DEPTH) {
                throw new ParserException(
                        "expected at most " + MAX_DEPTH + " levels of nesting, got more", event.getStartMark());
            }
            return event;
        }
    }
}
