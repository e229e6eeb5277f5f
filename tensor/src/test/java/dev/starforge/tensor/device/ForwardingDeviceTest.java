package dev.starforge.tensor.device;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.op.Plain;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every method of the SPI reaches the device behind a decorator; a new one fails here until it is forwarded. */
final class ForwardingDeviceTest {
    /** Built on the others by {@link Device}, on the decorator itself, so that they see what it overrides. */
    private static final Set<String> DERIVED = Set.of(
            "ops(Scope,Precision,Fallback)",
            "write(Tensor,float[])",
            "write(Tensor,int[])",
            "floats(Tensor)",
            "floats(Tensor,float[])",
            "ints(Tensor)");

    static Stream<Method> spi() {
        return Arrays.stream(Device.class.getMethods())
                .filter(method -> !Modifier.isStatic(method.getModifiers()))
                .filter(method -> !DERIVED.contains(signature(method)));
    }

    private static String signature(Method method) {
        return method.getName()
                + Arrays.stream(method.getParameterTypes())
                        .map(Class::getSimpleName)
                        .toList()
                        .toString()
                        .replace("[]", "#")
                        .replace('[', '(')
                        .replace(']', ')')
                        .replace("#", "[]")
                        .replace(", ", ",");
    }

    @ParameterizedTest
    @MethodSource("spi")
    void callsTheDelegate(Method method) throws ReflectiveOperationException {
        List<Method> called = new ArrayList<>();
        List<Object> given = new ArrayList<>();
        Device behind = (Device) Proxy.newProxyInstance(
                Device.class.getClassLoader(), new Class<?>[] {Device.class}, (proxy, to, arguments) -> {
                    called.add(to);
                    given.addAll(arguments == null ? List.of() : Arrays.asList(arguments));
                    return value(to.getReturnType());
                });
        Object[] arguments = Arrays.stream(method.getParameterTypes())
                .map(ForwardingDeviceTest::value)
                .toArray();
        Object answer = method.invoke(new ForwardingDevice(behind) {}, arguments);
        assertThat(called).as(method.toString()).containsExactly(method);
        assertThat(given).containsExactly(arguments);
        assertThat(answer).isEqualTo(value(method.getReturnType()));
    }

    @ParameterizedTest
    @MethodSource("derived")
    void derivedMethodsExist(String derived) {
        assertThat(Arrays.stream(Device.class.getMethods()).map(ForwardingDeviceTest::signature))
                .contains(derived);
    }

    static Set<String> derived() {
        return DERIVED;
    }

    /** A value of a type that is not what a method that forgets would answer. */
    private static Object value(Class<?> type) {
        if (type == void.class) {
            return null;
        }
        if (type == long.class) {
            return 17L;
        }
        if (type == boolean.class) {
            return true;
        }
        if (type.isArray()) {
            return Array.newInstance(type.componentType(), 0);
        }
        return switch (type.getSimpleName()) {
            case "String" -> "behind";
            case "Support" -> Support.EXPANDED;
            case "DType" -> DType.Q4_K;
            case "FileRegion" -> new FileRegion(Path.of("file"), 3, 5);
            case "ByteBuffer" -> ByteBuffer.allocate(3);
            case "List" -> List.of(19L);
            case "Optional" -> Optional.of(new Limits(1, 2, 3));
            case "Op" -> new Plain.Add();
            case "Object" -> "key";
            case "Memory", "Runnable" -> PROXIES.computeIfAbsent(type, ForwardingDeviceTest::proxy);
            default -> null;
        };
    }

    private static final Map<Class<?>, Object> PROXIES = new HashMap<>();

    private static Object proxy(Class<?> type) {
        return Proxy.newProxyInstance(
                type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) -> switch (method.getName()) {
                    case "equals" -> proxy == arguments[0];
                    case "hashCode" -> 1;
                    case "toString" -> type.getSimpleName();
                    default -> null;
                });
    }
}
