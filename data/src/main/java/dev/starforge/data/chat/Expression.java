package dev.starforge.data.chat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;

/** An expression of a template; what a template of ours has never used is refused by the parser or by {@link Functions}. */
sealed interface Expression {
    Object value(Scope scope);

    record Literal(Object constant) implements Expression {
        @Override
        public Object value(Scope scope) {
            return constant;
        }
    }

    record Name(String name) implements Expression {
        @Override
        public Object value(Scope scope) {
            return scope.get(name);
        }
    }

    record ListOf(List<Expression> items) implements Expression {
        @Override
        public Object value(Scope scope) {
            return items.stream().map(item -> item.value(scope)).toList();
        }
    }

    record MapOf(Map<String, Expression> entries) implements Expression {
        @Override
        public Object value(Scope scope) {
            Map<String, Object> map = new LinkedHashMap<>();
            entries.forEach((key, entry) -> map.put(key, entry.value(scope)));
            return map;
        }
    }

    /** {@code a.b}, {@code a['b']}, {@code a[0]}. */
    record Member(Expression of, Expression key) implements Expression {
        @Override
        public Object value(Scope scope) {
            Object owner = of.value(scope);
            Object wanted = key.value(scope);
            return switch (owner) {
                case Map<?, ?> map -> map.containsKey(wanted) ? map.get(wanted) : Value.Word.UNDEFINED;
                case Value.Namespace space -> space.fields().getOrDefault(String.valueOf(wanted), Value.Word.UNDEFINED);
                case List<?> list
                when wanted instanceof Long at -> {
                    long index = at < 0 ? at + list.size() : at;
                    yield index >= 0 && index < list.size() ? list.get((int) index) : Value.Word.UNDEFINED;
                }
                case String text
                when wanted instanceof Long at -> {
                    long index = at < 0 ? at + text.length() : at;
                    yield index >= 0 && index < text.length()
                            ? String.valueOf(text.charAt((int) index))
                            : Value.Word.UNDEFINED;
                }
                case Value.Word word
                when word == Value.Word.UNDEFINED ->
                    throw new Value.Failure("asks for " + wanted + " of something that is not defined");
                default -> Value.Word.UNDEFINED;
            };
        }
    }

    /** {@code a[from:to:step]}; literals of NONE stand for what is left out. */
    record Slice(Expression of, Expression from, Expression to, Expression step) implements Expression {
        @Override
        public Object value(Scope scope) {
            Object owner = of.value(scope);
            int size = owner instanceof String text
                    ? text.length()
                    : Functions.list(owner).size();
            long by = whole(step, scope, 1);
            if (by == 0) {
                throw new Value.Failure("a slice with steps of 0");
            }
            long first = bound(from, scope, by > 0 ? 0 : size - 1L, size, by);
            long last = bound(to, scope, by > 0 ? size : -1, size, by);
            long[] places = LongStream.iterate(first, i -> by > 0 ? i < last : i > last, i -> i + by)
                    .toArray();
            if (owner instanceof String text) {
                StringBuilder out = new StringBuilder();
                for (long place : places) {
                    out.append(text.charAt((int) place));
                }
                return out.toString();
            }
            List<Object> items = new ArrayList<>();
            for (long place : places) {
                items.add(Functions.list(owner).get((int) place));
            }
            return items;
        }

        private static long whole(Expression expression, Scope scope, long missing) {
            return switch (expression.value(scope)) {
                case Long number -> number;
                case Value.Word word when word == Value.Word.NONE -> missing;
                default -> throw new Value.Failure("a slice wants whole numbers");
            };
        }

        private static long bound(Expression expression, Scope scope, long missing, int size, long by) {
            long given = whole(expression, scope, Long.MIN_VALUE);
            if (given == Long.MIN_VALUE) {
                return missing;
            }
            long place = given < 0 ? given + size : given;
            return by > 0 ? Math.clamp(place, 0, size) : Math.clamp(place, -1, size - 1L);
        }
    }

    record Call(Expression function, List<Expression> arguments, Map<String, Expression> named) implements Expression {
        @Override
        public Object value(Scope scope) {
            List<Object> given =
                    arguments.stream().map(argument -> argument.value(scope)).toList();
            Map<String, Object> byName = new LinkedHashMap<>();
            named.forEach((name, argument) -> byName.put(name, argument.value(scope)));
            if (function instanceof Member(Expression of, Literal(Object name)) && name instanceof String method) {
                return Functions.method(of.value(scope), method, given);
            }
            if (function instanceof Name(String name)) {
                return Functions.global(name, given, byName);
            }
            throw new Value.Failure("calls something that is no function");
        }
    }

    /** @param named for tojson alone */
    record Filter(Expression of, String name, List<Expression> arguments, Map<String, Expression> named)
            implements Expression {
        @Override
        public Object value(Scope scope) {
            List<Object> given =
                    arguments.stream().map(argument -> argument.value(scope)).toList();
            if (named.isEmpty()) {
                return Functions.filter(name, of.value(scope), given);
            }
            Map<String, Object> byName = new LinkedHashMap<>();
            named.forEach((key, argument) -> byName.put(key, argument.value(scope)));
            return Functions.json(of.value(scope), byName);
        }
    }

    record Test(Expression of, String name, List<Expression> arguments, boolean negated) implements Expression {
        @Override
        public Object value(Scope scope) {
            List<Object> given =
                    arguments.stream().map(argument -> argument.value(scope)).toList();
            return Functions.test(name, of.value(scope), given) != negated;
        }
    }

    record Not(Expression of) implements Expression {
        @Override
        public Object value(Scope scope) {
            return !Value.isTrue(of.value(scope));
        }
    }

    record Negative(Expression of) implements Expression {
        @Override
        public Object value(Scope scope) {
            return Functions.arithmetic("-", 0L, of.value(scope));
        }
    }

    /** The value of one side, as in Python, not a boolean. */
    record Logic(boolean and, Expression left, Expression right) implements Expression {
        @Override
        public Object value(Scope scope) {
            Object first = left.value(scope);
            return Value.isTrue(first) == and ? right.value(scope) : first;
        }
    }

    record Binary(String operator, Expression left, Expression right) implements Expression {
        @Override
        public Object value(Scope scope) {
            return Functions.binary(operator, left.value(scope), right.value(scope));
        }
    }

    record Choice(Expression condition, Expression yes, Expression no) implements Expression {
        @Override
        public Object value(Scope scope) {
            return (Value.isTrue(condition.value(scope)) ? yes : no).value(scope);
        }
    }
}
