package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Binary operators with Python semantics, and the tests after {@code is}. */
final class Operators {
    private Operators() {}

    static Object binary(String operator, Object a, Object b, RenderBudget budget) {
        budget.charge(a);
        budget.charge(b);
        return switch (operator) {
            case "==" -> same(a, b, budget);
            case "!=" -> !same(a, b, budget);
            case "in" -> contains(b, a, budget);
            case "not in" -> !contains(b, a, budget);
            case "~" -> both(Value.text(a), Value.text(b), budget);
            case "<" -> compare(a, b) < 0;
            case ">" -> compare(a, b) > 0;
            case "<=" -> compare(a, b) <= 0;
            case ">=" -> compare(a, b) >= 0;
            default -> arithmetic(operator, a, b, budget);
        };
    }

    /** Compares recursively and counts the visits. */
    static boolean same(Object a, Object b, RenderBudget budget) {
        budget.step();
        return switch (a) {
            case Number one when b instanceof Number other -> one.doubleValue() == other.doubleValue();
            case List<?> one
            when b instanceof List<?> other -> {
                boolean same = one.size() == other.size();
                for (int i = 0; same && i < one.size(); i++) {
                    same = same(one.get(i), other.get(i), budget);
                }
                yield same;
            }
            case Map<?, ?> one
            when b instanceof Map<?, ?> other ->
                one.size() == other.size()
                        && one.entrySet().stream()
                                .allMatch(each -> other.containsKey(each.getKey())
                                        && same(each.getValue(), Value.member(other, each.getKey()), budget));
            case Value.Namespace _, Value.Function _ -> a == b;
            default -> a.equals(b);
        };
    }

    static Object arithmetic(String operator, Object a, Object b, RenderBudget budget) {
        if (operator.equals("+") && a instanceof String left && b instanceof String right) {
            return both(left, right, budget);
        }
        if (operator.equals("*") && a instanceof String text && b instanceof Long times) {
            budget.requireRoom(
                    text.length() * (double) times > Integer.MAX_VALUE ? Long.MAX_VALUE : text.length() * times);
            return budget.charge(text.repeat((int) Math.max(0, text.isEmpty() ? 0 : times)));
        }
        if (operator.equals("+") && a instanceof List<?> left && b instanceof List<?> right) {
            budget.requireRoom((long) left.size() + right.size());
            List<Object> both = new ArrayList<>(left);
            both.addAll(right);
            return both;
        }
        if (!(a instanceof Number one) || !(b instanceof Number other)) {
            throw new Value.Failure(operator + " between a " + Value.kind(a) + " and a " + Value.kind(b));
        }
        double left = one.doubleValue();
        double right = other.doubleValue();
        if (right == 0 && List.of("/", "//", "%").contains(operator)) {
            throw new Value.Failure(operator + " by zero");
        }
        double result = switch (operator) {
            case "+" -> left + right;
            case "-" -> left - right;
            case "*" -> left * right;
            case "/" -> left / right;
            case "//" -> Math.floor(left / right);
            case "%" -> left - right * Math.floor(left / right);
            default -> throw new Value.Failure("operator " + operator + " is not known");
        };
        boolean whole = a instanceof Long && b instanceof Long && !operator.equals("/");
        return whole ? (Object) (long) result : (Object) result;
    }

    private static String both(String a, String b, RenderBudget budget) {
        budget.requireRoom((long) a.length() + b.length());
        return a + b;
    }

    static int compare(Object a, Object b) {
        if (a instanceof Number left && b instanceof Number right) {
            return Double.compare(left.doubleValue(), right.doubleValue());
        }
        if (a instanceof String left && b instanceof String right) {
            return left.compareTo(right);
        }
        throw new Value.Failure("compares a " + Value.kind(a) + " with a " + Value.kind(b));
    }

    private static boolean contains(Object whole, Object part, RenderBudget budget) {
        return switch (whole) {
            case String text -> text.contains(Value.string(part));
            case List<?> list -> list.stream().anyMatch(item -> same(item, part, budget));
            case Map<?, ?> map -> Value.member(map, part) != Value.Word.UNDEFINED;
            case Value.Word word when word == Value.Word.UNDEFINED -> false;
            default -> throw new Value.Failure("in: a " + Value.kind(whole) + " holds nothing");
        };
    }

    static boolean test(String name, Object of, Arguments given, RenderBudget budget) {
        budget.charge(of);
        return switch (name) {
            case "defined" -> of != Value.Word.UNDEFINED;
            case "undefined" -> of == Value.Word.UNDEFINED;
            case "none" -> of == Value.Word.NONE;
            case "string" -> of instanceof String;
            case "number" -> of instanceof Number;
            case "integer" -> of instanceof Long;
            case "float" -> of instanceof Double;
            case "boolean" -> of instanceof Boolean;
            case "true" -> of.equals(true);
            case "false" -> of.equals(false);
            case "callable" -> of instanceof Value.Function;
            case "mapping" -> of instanceof Map;
            case "sequence", "iterable" -> of instanceof String || of instanceof List || of instanceof Map;
            case "sameas" -> of.equals(given.first(name));
            case "equalto", "eq", "==" -> same(of, given.first(name), budget);
            case "ne", "!=" -> !same(of, given.first(name), budget);
            case "lt", "lessthan", "<" -> compare(of, given.first(name)) < 0;
            case "le", "<=" -> compare(of, given.first(name)) <= 0;
            case "gt", "greaterthan", ">" -> compare(of, given.first(name)) > 0;
            case "ge", ">=" -> compare(of, given.first(name)) >= 0;
            case "in" -> contains(given.first(name), of, budget);
            case "divisibleby" -> arithmetic("%", of, given.first(name), budget).equals(0L);
            case "odd" -> Value.whole(of) % 2 != 0;
            case "even" -> Value.whole(of) % 2 == 0;
            case "lower" -> of instanceof String text && text.equals(text.toLowerCase(Locale.ROOT));
            case "upper" -> of instanceof String text && text.equals(text.toUpperCase(Locale.ROOT));
            default -> throw new Value.Failure("test " + name + " is not known");
        };
    }
}
