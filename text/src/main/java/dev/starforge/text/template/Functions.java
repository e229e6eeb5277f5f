package dev.starforge.text.template;

import java.time.Clock;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.LongStream;

/** The global functions that templates can call. Apart from methods of strings and mappings, there are no others. */
final class Functions {
    private static final int LONGEST_RANGE = 100_000;

    /** Python's date directives and their Java patterns. */
    private static final Map<Character, String> DATE = Map.ofEntries(
            Map.entry('d', "dd"),
            Map.entry('m', "MM"),
            Map.entry('Y', "uuuu"),
            Map.entry('y', "uu"),
            Map.entry('b', "MMM"),
            Map.entry('B', "MMMM"),
            Map.entry('a', "EEE"),
            Map.entry('A', "EEEE"),
            Map.entry('H', "HH"),
            Map.entry('I', "hh"),
            Map.entry('M', "mm"),
            Map.entry('S', "ss"),
            Map.entry('p', "a"),
            Map.entry('j', "DDD"),
            Map.entry('%', "'%'"));

    private Functions() {}

    /** @param clock for {@code strftime_now}; without one it is undefined, which many templates test for */
    static Map<String, Object> all(Optional<Clock> clock) {
        Map<String, Value.Function> all = new HashMap<>();
        all.put("raise_exception", (given, _) -> {
            throw new Value.Failure("refuses the conversation: " + Value.text(given.first("raise_exception")));
        });
        all.put("namespace", (given, _) -> new Value.Namespace(new LinkedHashMap<>(given.named())));
        all.put("dict", (given, _) -> new LinkedHashMap<>(given.named()));
        all.put("range", Functions::range);
        clock.ifPresent(now -> all.put(
                "strftime_now", (given, _) -> strftime(now, Value.string(given.bind("strftime_now", "format")[0]))));
        return Map.copyOf(all);
    }

    private static List<Object> range(Arguments given, RenderBudget budget) {
        List<Object> placed = given.placed();
        given.first("range");
        long from = placed.size() > 1 ? Value.whole(placed.get(0)) : 0;
        long to = Value.whole(placed.get(placed.size() > 1 ? 1 : 0));
        long by = placed.size() > 2 ? Value.whole(placed.get(2)) : 1;
        if (by == 0 || Math.abs(((double) to - from) / by) > LONGEST_RANGE) {
            throw new Value.Failure("range: too long, or in steps of 0");
        }
        return budget.charge(LongStream.iterate(from, i -> by > 0 ? i < to : i > to, i -> i + by)
                .boxed()
                .map(Object.class::cast)
                .toList());
    }

    private static String strftime(Clock clock, String format) {
        ZonedDateTime now = ZonedDateTime.now(clock);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < format.length(); i++) {
            char c = format.charAt(i);
            if (c != '%') {
                text.append(c);
                continue;
            }
            String pattern = i + 1 < format.length() ? DATE.get(format.charAt(++i)) : null;
            if (pattern == null) {
                throw new Value.Failure("strftime_now: a directive of " + format + " is not known");
            }
            text.append(DateTimeFormatter.ofPattern(pattern, Locale.US).format(now));
        }
        return text.toString();
    }
}
