package dev.starforge.data.chat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A piece of a template, which writes something or changes a name. */
sealed interface Statement {
    void write(Scope scope, StringBuilder out);

    static void writeAll(List<Statement> statements, Scope scope, StringBuilder out) {
        for (Statement statement : statements) {
            scope.step();
            statement.write(scope, out);
            Value.requireRoom(out.length());
        }
    }

    record Text(String text) implements Statement {
        @Override
        public void write(Scope scope, StringBuilder out) {
            out.append(text);
        }
    }

    record Output(Expression expression, int line) implements Statement {
        @Override
        public void write(Scope scope, StringBuilder out) {
            out.append(Value.text(at(line, () -> expression.value(scope))));
        }
    }

    /** @param conditions one for each body but the last, which is that of else and may be empty */
    record If(List<Expression> conditions, List<List<Statement>> bodies, int line) implements Statement {
        @Override
        public void write(Scope scope, StringBuilder out) {
            for (int i = 0; i < conditions.size(); i++) {
                Expression condition = conditions.get(i);
                if (Value.isTrue(at(line, () -> condition.value(scope)))) {
                    writeAll(bodies.get(i), scope, out);
                    return;
                }
            }
            writeAll(bodies.getLast(), scope, out);
        }
    }

    /** @param filter which items count; a literal true for all */
    record For(
            List<String> names,
            Expression over,
            Expression filter,
            List<Statement> body,
            List<Statement> otherwise,
            int line)
            implements Statement {
        @Override
        public void write(Scope scope, StringBuilder out) {
            List<Object> items = new ArrayList<>();
            for (Object item : Functions.list(at(line, () -> over.value(scope)))) {
                scope.step();
                Scope tried = scope.inner();
                assign(tried, item);
                if (Value.isTrue(at(line, () -> filter.value(tried)))) {
                    items.add(item);
                }
            }
            for (int i = 0; i < items.size(); i++) {
                Scope pass = scope.inner();
                assign(pass, items.get(i));
                pass.set("loop", loop(items, i));
                writeAll(body, pass, out);
            }
            if (items.isEmpty()) {
                writeAll(otherwise, scope, out);
            }
        }

        private void assign(Scope pass, Object item) {
            if (names.size() == 1) {
                pass.set(names.getFirst(), item);
                return;
            }
            List<?> parts = Functions.list(item);
            if (parts.size() != names.size()) {
                throw new Value.Failure("line " + line + ": a loop over " + names.size() + " names, and items of "
                        + parts.size() + " values");
            }
            for (int i = 0; i < names.size(); i++) {
                pass.set(names.get(i), parts.get(i));
            }
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

    /** @param field of a namespace; empty for a plain name */
    record Set(String name, String field, Expression expression, int line) implements Statement {
        @Override
        public void write(Scope scope, StringBuilder out) {
            Object value = at(line, () -> expression.value(scope));
            if (field.isEmpty()) {
                scope.set(name, value);
            } else if (scope.get(name) instanceof Value.Namespace space) {
                space.fields().put(field, value);
            } else {
                throw new Value.Failure("line " + line + ": " + name + " is no namespace");
            }
        }
    }

    /** {@code {% set name %} ... {% endset %}}. */
    record Capture(String name, List<Statement> body) implements Statement {
        @Override
        public void write(Scope scope, StringBuilder out) {
            StringBuilder captured = new StringBuilder();
            writeAll(body, scope, captured);
            scope.set(name, captured.toString());
        }
    }

    /** A piece of work that may fail without knowing where it stands. */
    interface Work {
        Object run();
    }

    private static Object at(int line, Work work) {
        try {
            return work.run();
        } catch (Value.Failure failure) {
            throw String.valueOf(failure.getMessage()).startsWith("line ")
                    ? failure
                    : new Value.Failure("line " + line + ": " + failure.getMessage());
        } catch (IndexOutOfBoundsException | ClassCastException | NumberFormatException wrong) {
            throw new Value.Failure("line " + line + ": a value is missing or of another kind than it should be");
        }
    }
}
