package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Parses a template. White space is handled as in HF's Jinja configuration: the first newline after a block and the
 * indentation before it are removed; a minus sign removes all white space on its side. Includes, inheritance and call
 * blocks are rejected by name.
 */
final class TemplateParser {
    private static final Set<String> ENDS =
            Set.of("endif", "else", "elif", "endfor", "endset", "endmacro", "endgeneration");
    private static final Set<String> TESTS_WITH_ARGUMENT = Set.of(
            "equalto", "eq", "ne", "in", "sameas", "divisibleby", "lt", "le", "gt", "ge", "lessthan", "greaterthan");
    private static final Expression ALL = new Expression.Literal(true);
    private static final Expression LEFT_OUT = new Expression.Literal(Value.Word.NONE);
    private static final Expression NOT_GIVEN = new Expression.Literal(Value.Word.UNDEFINED);

    private final TemplateLexer tokens;
    private int loops; // enclosing loops

    private TemplateParser(String source) {
        this.tokens = new TemplateLexer(source);
    }

    static List<Statement> parse(String source) {
        TemplateParser parser = new TemplateParser(source);
        List<Statement> all = parser.statements();
        if (!parser.tokens.atEnd()) {
            throw parser.tokens.wrong("the end of the template", parser.tokens.peek());
        }
        return all;
    }

    /**
     * Parses statements up to the end, or to a block that ends or divides the enclosing one; its name is the next
     * token.
     */
    private List<Statement> statements() {
        List<Statement> all = new ArrayList<>();
        while (!tokens.atEnd()) {
            if (tokens.isText()) {
                all.add(new Statement.Text(tokens.text()));
            } else if (tokens.take("{{")) {
                int line = tokens.line();
                all.add(new Statement.Output(expression(), line));
                tokens.expect("}}");
            } else {
                tokens.expect("{%");
                if (ENDS.contains(tokens.peek())) {
                    return all;
                }
                all.add(block());
            }
        }
        return all;
    }

    private Statement block() {
        int line = tokens.line();
        String name = tokens.name();
        return switch (name) {
            case "if" -> condition(line);
            case "for" -> loop(line);
            case "set" -> assignment(line);
            case "macro" -> macro();
            case "break", "continue" -> jump(name, line);
            case "generation" -> {
                tokens.expect("%}");
                List<Statement> body = statements();
                end("endgeneration");
                yield new Statement.If(List.of(ALL), List.of(body, List.of()), line);
            }
            default -> throw new Value.Failure("line " + line + ": block " + name + " is not known");
        };
    }

    private Statement jump(String name, int line) {
        if (loops == 0) {
            throw new Value.Failure("line " + line + ": " + name + " outside of a loop");
        }
        tokens.expect("%}");
        return new Statement.Jump(name.equals("break") ? Statement.Flow.BREAK : Statement.Flow.CONTINUE);
    }

    private Statement macro() {
        String name = tokens.name();
        List<String> parameters = new ArrayList<>();
        List<Expression> defaults = new ArrayList<>();
        tokens.expect("(");
        while (!tokens.take(")")) {
            parameters.add(tokens.name());
            defaults.add(tokens.take("=") ? expression() : NOT_GIVEN);
            if (!tokens.is(")")) {
                tokens.expect(",");
            }
        }
        tokens.expect("%}");
        int around = loops;
        loops = 0;
        List<Statement> body = statements();
        loops = around;
        end("endmacro");
        return new Statement.Macro(name, parameters, defaults, body);
    }

    private void end(String name) {
        tokens.expect(name);
        tokens.expect("%}");
    }

    private Statement condition(int line) {
        List<Expression> conditions = new ArrayList<>();
        List<List<Statement>> bodies = new ArrayList<>();
        do {
            conditions.add(expression());
            tokens.expect("%}");
            bodies.add(statements());
        } while (tokens.take("elif"));
        if (tokens.take("else")) {
            tokens.expect("%}");
            bodies.add(statements());
        } else {
            bodies.add(List.of());
        }
        end("endif");
        return new Statement.If(conditions, bodies, line);
    }

    private Statement loop(int line) {
        List<String> names = new ArrayList<>();
        do {
            names.add(tokens.name());
        } while (tokens.take(","));
        tokens.expect("in");
        Expression over = or();
        Expression filter = tokens.take("if") ? expression() : ALL;
        tokens.expect("%}");
        loops++;
        List<Statement> body = statements();
        loops--;
        List<Statement> otherwise = List.of();
        if (tokens.take("else")) {
            tokens.expect("%}");
            otherwise = statements();
        }
        end("endfor");
        return new Statement.For(names, over, filter, body, otherwise, line);
    }

    private Statement assignment(int line) {
        String name = tokens.name();
        if (tokens.take("%}")) {
            List<Statement> body = statements();
            end("endset");
            return new Statement.Capture(name, body);
        }
        if (tokens.take(".")) {
            return new Statement.SetField(name, tokens.name(), assigned(), line);
        }
        List<String> names = new ArrayList<>(List.of(name));
        while (tokens.take(",")) {
            names.add(tokens.name());
        }
        return new Statement.Set(names, assigned(), line);
    }

    /** Parses the right side of an assignment; several values without parentheses are a tuple. */
    private Expression assigned() {
        tokens.expect("=");
        List<Expression> values = new ArrayList<>(List.of(expression()));
        while (tokens.take(",")) {
            values.add(expression());
        }
        tokens.expect("%}");
        return values.size() == 1 ? values.getFirst() : new Expression.ListOf(values);
    }

    private Expression expression() {
        Expression yes = or();
        if (!tokens.take("if")) {
            return yes;
        }
        Expression condition = or();
        return new Expression.Choice(condition, yes, tokens.take("else") ? expression() : NOT_GIVEN);
    }

    private Expression or() {
        Expression left = and();
        while (tokens.take("or")) {
            left = new Expression.Logic(false, left, and());
        }
        return left;
    }

    private Expression and() {
        Expression left = not();
        while (tokens.take("and")) {
            left = new Expression.Logic(true, left, not());
        }
        return left;
    }

    private Expression not() {
        return tokens.take("not") ? new Expression.Not(not()) : comparison();
    }

    /** {@code a < b < c} means {@code a < b and b < c}. */
    private Expression comparison() {
        Expression left = sum();
        Expression all = LEFT_OUT;
        while (true) {
            String operator = tokens.takeAny("==", "!=", "<=", ">=", "<", ">", "in");
            if (operator.isEmpty() && tokens.take("not")) {
                tokens.expect("in");
                operator = "not in";
            }
            if (operator.isEmpty()) {
                return all == LEFT_OUT ? left : all;
            }
            Expression right = sum();
            Expression compared = new Expression.Binary(operator, left, right);
            all = all == LEFT_OUT ? compared : new Expression.Logic(true, all, compared);
            left = right;
        }
    }

    private Expression sum() {
        Expression left = joined();
        for (String operator = tokens.takeAny("+", "-"); !operator.isEmpty(); operator = tokens.takeAny("+", "-")) {
            left = new Expression.Binary(operator, left, joined());
        }
        return left;
    }

    private Expression joined() {
        Expression left = product();
        while (tokens.take("~")) {
            left = new Expression.Binary("~", left, product());
        }
        return left;
    }

    private Expression product() {
        Expression left = unary();
        for (String operator = tokens.takeAny("*", "//", "/", "%");
                !operator.isEmpty();
                operator = tokens.takeAny("*", "//", "/", "%")) {
            left = new Expression.Binary(operator, left, unary());
        }
        return left;
    }

    private Expression unary() {
        return postfix(tokens.take("-") ? new Expression.Negative(members(primary())) : members(primary()));
    }

    /** Filters and tests, which bind less tightly than members and calls. */
    private Expression postfix(Expression first) {
        Expression value = first;
        while (true) {
            if (tokens.take("|")) {
                String name = tokens.name();
                value = members(
                        new Expression.Filter(value, name, tokens.take("(") ? arguments() : Expression.Given.NOTHING));
            } else if (tokens.take("is")) {
                boolean negated = tokens.take("not");
                String name = tokens.name();
                Expression.Given given = tokens.take("(")
                        ? arguments()
                        : TESTS_WITH_ARGUMENT.contains(name)
                                ? new Expression.Given(List.of(members(primary())), Map.of())
                                : Expression.Given.NOTHING;
                value = new Expression.Test(value, name, given, negated);
            } else {
                return value;
            }
        }
    }

    private Expression members(Expression first) {
        Expression value = first;
        while (true) {
            if (tokens.take(".")) {
                value = new Expression.Member(value, new Expression.Literal(tokens.name()));
            } else if (tokens.take("[")) {
                value = subscript(value);
            } else if (tokens.take("(")) {
                value = new Expression.Call(value, arguments());
            } else {
                return value;
            }
        }
    }

    private Expression subscript(Expression of) {
        Expression from = tokens.is(":") ? LEFT_OUT : expression();
        if (!tokens.take(":")) {
            tokens.expect("]");
            return new Expression.Member(of, from);
        }
        Expression to = tokens.is(":") || tokens.is("]") ? LEFT_OUT : expression();
        Expression step = tokens.take(":") && !tokens.is("]") ? expression() : LEFT_OUT;
        tokens.expect("]");
        return new Expression.Slice(of, from, to, step);
    }

    private Expression.Given arguments() {
        List<Expression> placed = new ArrayList<>();
        Map<String, Expression> named = new LinkedHashMap<>();
        while (!tokens.take(")")) {
            if (tokens.isNamedArgument()) {
                String name = tokens.name();
                tokens.expect("=");
                named.put(name, expression());
            } else {
                placed.add(expression());
            }
            if (!tokens.is(")")) {
                tokens.expect(",");
            }
        }
        return new Expression.Given(placed, named);
    }

    /** Parses the remaining items of a list up to the closing bracket. */
    private List<Expression> items(String close) {
        List<Expression> items = new ArrayList<>();
        while (!tokens.take(close)) {
            items.add(expression());
            if (!tokens.is(close)) {
                tokens.expect(",");
            }
        }
        return items;
    }

    private Expression bracketed() {
        if (tokens.take(")")) {
            return new Expression.ListOf(List.of());
        }
        Expression inner = expression();
        if (tokens.take(")")) {
            return inner;
        }
        tokens.expect(",");
        List<Expression> tuple = new ArrayList<>(List.of(inner));
        tuple.addAll(items(")"));
        return new Expression.ListOf(tuple);
    }

    private Expression mapping() {
        Map<Expression, Expression> entries = new LinkedHashMap<>();
        while (!tokens.take("}")) {
            Expression key = expression();
            tokens.expect(":");
            entries.put(key, expression());
            if (!tokens.is("}")) {
                tokens.expect(",");
            }
        }
        return new Expression.MapOf(entries);
    }

    private Expression primary() {
        if (tokens.take("(")) {
            return bracketed();
        }
        if (tokens.take("[")) {
            return new Expression.ListOf(items("]"));
        }
        if (tokens.take("{")) {
            return mapping();
        }
        if (tokens.isConstant()) {
            StringBuilder text = new StringBuilder();
            Object constant = tokens.constant();
            while (constant instanceof String && tokens.isString()) { // adjacent literals are one string
                text.append(text.isEmpty() ? constant : "").append(tokens.constant());
            }
            return new Expression.Literal(text.isEmpty() ? constant : text.toString());
        }
        String name = tokens.name();
        return switch (name) {
            case "true", "True" -> new Expression.Literal(true);
            case "false", "False" -> new Expression.Literal(false);
            case "none", "None" -> LEFT_OUT;
            default -> new Expression.Name(name);
        };
    }
}
