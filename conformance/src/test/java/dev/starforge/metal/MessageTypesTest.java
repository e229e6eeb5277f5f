package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.GroupLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.invoke.MethodHandles;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The descriptors of messages against the type encodings of their methods, letter by letter: a wrong one may work on one processor and
 * crash on another.
 */
class MessageTypesTest {
    /** One type: a struct, or qualifiers and pointers with a letter. */
    private static final Pattern TYPE = Pattern.compile("\\{[^}]*=(\\w+)\\}|@\\?|[rnNoORV]*\\^*[@:#*vBcCsSiIlLqQfd?]");

    @Test
    void everyMessageHasTheTypeOfItsMethod() throws IllegalAccessException {
        try (StandIn standIn = StandIn.open()) {
            for (Class<?> bindings : List.of(Foundation.class, MetalDriver.class, MetalCommands.class)) {
                MethodHandles.privateLookupIn(bindings, MethodHandles.lookup()).ensureInitialized(bindings);
            }
            List<ObjcRuntime.Message> messages = ObjcRuntime.messages().stream()
                    .filter(each -> !each.selector().equals("newCommandQueues")) // planted by another test
                    .toList();
            assertThat(messages).hasSizeGreaterThan(40);
            for (ObjcRuntime.Message message : messages) {
                String types = standIn.types(message.receiver(), message.selector());
                assertThat(matches(types, message.type()))
                        .as(message + " against " + types)
                        .isTrue();
            }
        }
    }

    /** Returns true if a descriptor without receiver and selector has these types. */
    private static boolean matches(String types, FunctionDescriptor descriptor) {
        List<String> encoded = split(types);
        List<MemoryLayout> arguments = descriptor.argumentLayouts();
        if (encoded.size() != 3 + arguments.size()
                || !encoded.get(1).equals("@")
                || !encoded.get(2).equals(":")) {
            return false;
        }
        boolean same = descriptor.returnLayout().isEmpty()
                ? encoded.getFirst().equals("v")
                : matches(encoded.getFirst(), descriptor.returnLayout().get());
        for (int i = 0; i < arguments.size(); i++) {
            same &= matches(encoded.get(3 + i), arguments.get(i));
        }
        return same;
    }

    private static List<String> split(String types) {
        List<String> all = new ArrayList<>();
        TYPE.matcher(types).results().map(MatchResult::group).forEach(all::add);
        return all;
    }

    private static boolean matches(String type, MemoryLayout layout) {
        String bare = type.replaceFirst("^[rnNoORV]+", "");
        if (layout instanceof GroupLayout struct) {
            List<String> members = bare.startsWith("{")
                    ? List.of(bare.substring(bare.indexOf('=') + 1, bare.length() - 1)
                            .split(""))
                    : List.of();
            return members.size() == struct.memberLayouts().size()
                    && IntStream.range(0, members.size())
                            .allMatch(i -> matches(
                                    members.get(i),
                                    struct.memberLayouts().get(i).withoutName()));
        }
        return switch (bare.charAt(0)) {
            case '@', ':', '#', '*', '^' -> layout.equals(ADDRESS);
            case 'q', 'Q', 'l', 'L' -> layout.equals(JAVA_LONG);
            case 'i', 'I' -> layout.equals(JAVA_INT);
            case 'd' -> layout.equals(JAVA_DOUBLE);
            case 'B', 'c' -> layout.equals(JAVA_BOOLEAN);
            default -> false;
        };
    }

    @Test
    void wrongDescriptorsAreFound() {
        String dispatch = "v@:{?=QQQ}{?=QQQ}";
        assertThat(matches(dispatch, FunctionDescriptor.ofVoid(MetalCommands.SIZE, MetalCommands.SIZE)))
                .isTrue();
        assertThat(matches(dispatch, FunctionDescriptor.ofVoid(MetalCommands.SIZE, MetalCommands.RANGE)))
                .isFalse();
        assertThat(matches(dispatch, FunctionDescriptor.ofVoid(ADDRESS, ADDRESS)))
                .isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"Q@:", "B@:", "d@:", "v@:", "@@:@", ""})
    void otherTypesDoNotMatchAnObject(String types) {
        assertThat(matches(types, FunctionDescriptor.of(ADDRESS))).isFalse();
    }
}
