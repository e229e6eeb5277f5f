package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;

/** An expression of a template. */
sealed interface Expression {
    Object value(TemplateScope scope);

    record Literal(Object constant) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return constant;
        }
    }

    record Name(String name) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return scope.get(name);
        }
    }

    /** A list or a tuple; templates treat them alike. */
    record ListOf(List<Expression> items) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return scope.budget()
                    .charge(items.stream().map(item -> item.value(scope)).toList());
        }
    }

    record MapOf(Map<Expression, Expression> entries) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            Map<String, Object> map = new LinkedHashMap<>();
            entries.forEach((key, entry) -> map.put(Value.string(key.value(scope)), entry.value(scope)));
            return scope.budget().charge(map);
        }
    }

    /** {@code a.b}, {@code a['b']}, {@code a[0]}. */
    record Member(Expression of, Expression key) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            Object owner = of.value(scope);
            if (owner instanceof String text) {
                scope.budget().charge(text);
            }
            return Value.member(owner, key.value(scope));
        }
    }

    /** {@code a[from:to:step]}; omitted parts are NONE. */
    record Slice(Expression of, Expression from, Expression to, Expression step) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            Object owner = scope.budget().charge(of.value(scope));
            List<?> list = Value.list(owner);
            int size = list.size();
            long by = Value.whole(step.value(scope), 1);
            if (by == 0) {
                throw new Value.Failure("a slice with steps of 0");
            }
            long first = bound(from, scope, by > 0 ? 0 : size - 1L, size, by);
            long last = bound(to, scope, by > 0 ? size : -1, size, by);
            List<Object> items = new ArrayList<>();
            LongStream.iterate(first, i -> by > 0 ? i < last : i > last, i -> i + by)
                    .forEach(i -> items.add(list.get((int) i)));
            return owner instanceof String ? Methods.joined(items, "", scope.budget()) : items;
        }

        private static long bound(Expression expression, TemplateScope scope, long missing, int size, long by) {
            Object given = expression.value(scope);
            if (given instanceof Value.Word) {
                return missing;
            }
            long place = Value.whole(given) < 0 ? Value.whole(given) + size : Value.whole(given);
            return by > 0 ? Math.clamp(place, 0, size) : Math.clamp(place, -1, size - 1L);
        }
    }

    /** The unevaluated arguments of a call. */
    record Given(List<Expression> placed, Map<String, Expression> named) {
        static final Given NOTHING = new Given(List.of(), Map.of());

        Arguments values(TemplateScope scope) {
            if (placed.isEmpty() && named.isEmpty()) {
                return Arguments.NONE;
            }
            Map<String, Object> byName = new LinkedHashMap<>();
            named.forEach((name, argument) -> byName.put(name, argument.value(scope)));
            return new Arguments(
                    placed.stream().map(argument -> argument.value(scope)).toList(), byName);
        }
    }

    record Call(Expression function, Given given) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            if (function instanceof Member(Expression of, Literal(Object name)) && name instanceof String method) {
                return Methods.call(of.value(scope), method, given.values(scope), scope.budget());
            }
            if (function.value(scope) instanceof Value.Function callee) {
                return callee.call(given.values(scope), scope.budget());
            }
            throw new Value.Failure(
                    function instanceof Name(String name)
                            ? "function " + name + " is not known"
                            : "calls something that is no function");
        }
    }

    record Filter(Expression of, String name, Given given) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return Filters.apply(name, of.value(scope), given.values(scope), scope.budget());
        }
    }

    record Test(Expression of, String name, Given given, boolean negated) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return Operators.test(name, of.value(scope), given.values(scope), scope.budget()) != negated;
        }
    }

    record Not(Expression of) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return !Value.isTrue(of.value(scope));
        }
    }

    record Negative(Expression of) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return Operators.arithmetic("-", 0L, of.value(scope), scope.budget());
        }
    }

    /** {@code and} or {@code or}; returns an operand as in Python, not a boolean. */
    record Logic(boolean and, Expression left, Expression right) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            Object first = left.value(scope);
            return Value.isTrue(first) == and ? right.value(scope) : first;
        }
    }

    record Binary(String operator, Expression left, Expression right) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return Operators.binary(operator, left.value(scope), right.value(scope), scope.budget());
        }
    }

    record Choice(Expression condition, Expression yes, Expression no) implements Expression {
        @Override
        public Object value(TemplateScope scope) {
            return (Value.isTrue(condition.value(scope)) ? yes : no).value(scope);
        }
    }
}
