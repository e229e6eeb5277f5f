package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** A statement of a template, which writes output or changes a variable. */
sealed interface Statement {
    /** Control flow after a statement of a loop body. */
    enum Flow {
        NEXT,
        CONTINUE,
        BREAK
    }

    Flow write(TemplateScope scope, StringBuilder out);

    static Flow writeAll(List<Statement> statements, TemplateScope scope, StringBuilder out) {
        for (Statement statement : statements) {
            scope.budget().step();
            Flow flow = statement.write(scope, out);
            scope.budget().requireRoom(out.length());
            if (flow != Flow.NEXT) {
                return flow;
            }
        }
        return Flow.NEXT;
    }

    record Text(String text) implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            out.append(text);
            return Flow.NEXT;
        }
    }

    record Output(Expression expression, int line) implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            out.append(at(line, () -> Value.text(expression.value(scope))));
            return Flow.NEXT;
        }
    }

    /** @param conditions one per body, except for an optional else body at the end */
    record If(List<Expression> conditions, List<List<Statement>> bodies, int line) implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            for (int i = 0; i < conditions.size(); i++) {
                Expression condition = conditions.get(i);
                if (at(line, () -> Value.isTrue(condition.value(scope)))) {
                    return writeAll(bodies.get(i), scope, out);
                }
            }
            return writeAll(bodies.getLast(), scope, out);
        }
    }

    /** {@code break} or {@code continue} of the enclosing loop. */
    record Jump(Flow flow) implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            return flow;
        }
    }

    /** Assigns a value to one name, or its elements to several. */
    private static void unpack(List<String> names, Object value, TemplateScope scope, int line) {
        if (names.size() == 1) {
            scope.set(names.getFirst(), value);
            return;
        }
        List<?> parts = Value.list(value);
        if (parts.size() != names.size()) {
            throw new Value.Failure("line " + line + ": " + names.size() + " names for " + parts.size() + " values");
        }
        for (int i = 0; i < names.size(); i++) {
            scope.set(names.get(i), parts.get(i));
        }
    }

    /** @param filter condition for items; a literal true for all */
    record For(
            List<String> names,
            Expression over,
            Expression filter,
            List<Statement> body,
            List<Statement> otherwise,
            int line)
            implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            List<Object> items = at(line, () -> items(scope));
            for (int i = 0; i < items.size(); i++) {
                TemplateScope pass = scope.inner();
                unpack(names, items.get(i), pass, line);
                pass.set("loop", loop(items, i));
                if (writeAll(body, pass, out) == Flow.BREAK) {
                    return Flow.NEXT;
                }
            }
            return items.isEmpty() ? writeAll(otherwise, scope, out) : Flow.NEXT;
        }

        private List<Object> items(TemplateScope scope) {
            List<Object> items = new ArrayList<>();
            for (Object item : Value.list(over.value(scope))) {
                scope.budget().step();
                TemplateScope tried = scope.inner();
                unpack(names, item, tried, line);
                if (Value.isTrue(filter.value(tried))) {
                    items.add(item);
                }
            }
            return items;
        }

        private static Map<String, Object> loop(List<Object> items, int i) {
            Map<String, Object> loop = new LinkedHashMap<>();
            loop.put("index", i + 1L);
            loop.put("index0", (long) i);
            loop.put("revindex", (long) items.size() - i);
            loop.put("revindex0", items.size() - i - 1L);
            loop.put("first", i == 0);
            loop.put("last", i == items.size() - 1);
            loop.put("length", (long) items.size());
            loop.put("previtem", i == 0 ? Value.Word.UNDEFINED : items.get(i - 1));
            loop.put("nextitem", i == items.size() - 1 ? Value.Word.UNDEFINED : items.get(i + 1));
            return loop;
        }
    }

    record Set(List<String> names, Expression expression, int line) implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            unpack(names, at(line, () -> expression.value(scope)), scope, line);
            return Flow.NEXT;
        }
    }

    /** {@code {% set name.field = ... %}} on a namespace. */
    record SetField(String name, String field, Expression expression, int line) implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            Object value = at(line, () -> expression.value(scope));
            if (scope.get(name) instanceof Value.Namespace space) {
                space.fields().put(field, value);
            } else {
                throw new Value.Failure("line " + line + ": " + name + " is no namespace");
            }
            return Flow.NEXT;
        }
    }

    /** {@code {% set name %} ... {% endset %}}. */
    record Capture(String name, List<Statement> body) implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            StringBuilder captured = new StringBuilder();
            writeAll(body, scope, captured);
            scope.set(name, captured.toString());
            return Flow.NEXT;
        }
    }

    /**
     * {@code {% macro name(a, b=1) %} ... {% endmacro %}}: a function that returns what its body writes. It sees the
     * enclosing variables at the time of the call.
     *
     * @param defaults one per parameter; a literal UNDEFINED for those without
     */
    record Macro(String name, List<String> parameters, List<Expression> defaults, List<Statement> body)
            implements Statement {
        @Override
        public Flow write(TemplateScope scope, StringBuilder out) {
            Value.Function macro = (given, budget) -> budget.nested(() -> called(scope, given));
            scope.set(name, macro);
            return Flow.NEXT;
        }

        private String called(TemplateScope around, Arguments given) {
            TemplateScope inside = around.inner();
            Object[] bound = given.bind(name, parameters.toArray(String[]::new));
            for (int i = 0; i < bound.length; i++) {
                boolean missing = bound[i] == Value.Word.UNDEFINED;
                inside.set(parameters.get(i), missing ? defaults.get(i).value(inside) : bound[i]);
            }
            StringBuilder written = new StringBuilder();
            writeAll(body, inside, written);
            return around.budget().charge(written.toString());
        }
    }

    private static <T> T at(int line, Supplier<T> work) {
        try {
            return work.get();
        } catch (Value.Failure failure) {
            throw String.valueOf(failure.getMessage()).startsWith("line ")
                    ? failure
                    : new Value.Failure("line " + line + ": " + failure.getMessage());
        }
    }
}
