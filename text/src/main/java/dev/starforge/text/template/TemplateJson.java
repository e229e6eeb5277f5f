package dev.starforge.text.template;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** {@code tojson} as configured in transformers: Python's json without ASCII or HTML escapes. */
final class TemplateJson {
    private final StringBuilder out = new StringBuilder();
    private final RenderBudget budget;
    private final String comma;
    private final String colon;
    private final int indent;
    private final boolean sorted;

    private TemplateJson(RenderBudget budget, String comma, String colon, int indent, boolean sorted) {
        this.budget = budget;
        this.comma = comma;
        this.colon = colon;
        this.indent = indent;
        this.sorted = sorted;
    }

    static String write(Object value, Arguments given, RenderBudget budget) {
        Object[] a = given.bind("tojson", "ensure_ascii", "indent", "separators", "sort_keys");
        if (Value.isTrue(a[0])) {
            throw new Value.Failure("tojson: ensure_ascii: expected false");
        }
        int indent = Math.clamp(Value.whole(a[1], 0), 0, 16);
        String comma = indent == 0 ? ", " : ",";
        String colon = ": ";
        if (a[2] instanceof List<?> pair && pair.size() == 2) {
            comma = Value.string(pair.getFirst());
            colon = Value.string(pair.getLast());
        } else if (!(a[2] instanceof Value.Word)) {
            throw new Value.Failure("tojson: separators: expected two");
        }
        TemplateJson json = new TemplateJson(budget, comma, colon, indent, Value.isTrue(a[3]));
        json.put(value, "");
        return json.out.toString();
    }

    /** @param margin indentation of the line in which the value begins */
    private void put(Object value, String margin) {
        budget.step();
        budget.requireRoom(out.length());
        switch (value) {
            case String text -> quote(text);
            case Boolean flag -> out.append(flag);
            case Number number -> out.append(number);
            case Value.Word word when word == Value.Word.NONE -> out.append("null");
            case List<?> list -> {
                out.append('[');
                String line = "";
                for (Object item : list) {
                    out.append(line.isEmpty() ? "" : comma).append(line(margin));
                    put(item, margin + " ".repeat(indent));
                    line = ",";
                }
                close(']', list.isEmpty(), margin);
            }
            case Map<?, ?> map -> {
                out.append('{');
                String line = "";
                for (Map.Entry<?, ?> entry : (sorted ? new TreeMap<Object, Object>(map) : map).entrySet()) {
                    out.append(line.isEmpty() ? "" : comma).append(line(margin));
                    quote(Value.string(entry.getKey()));
                    out.append(colon);
                    put(entry.getValue(), margin + " ".repeat(indent));
                    line = ",";
                }
                close('}', map.isEmpty(), margin);
            }
            default -> throw new Value.Failure("tojson: a " + Value.kind(value) + " has no JSON");
        }
    }

    private String line(String margin) {
        return indent == 0 ? "" : "\n" + margin + " ".repeat(indent);
    }

    private void close(char bracket, boolean empty, String margin) {
        out.append(indent == 0 || empty ? "" : "\n" + margin).append(bracket);
    }

    private void quote(String text) {
        budget.charge(text);
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '"', '\\' -> out.append('\\').append(c);
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                case '\b' -> out.append("\\b");
                case '\f' -> out.append("\\f");
                default -> {
                    if (c < ' ') {
                        out.append(String.format("\\u%04x", (int) c));
                    } else {
                        out.append(c);
                    }
                }
            }
        }
        out.append('"');
    }
}
