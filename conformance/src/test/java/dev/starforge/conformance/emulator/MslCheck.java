package dev.starforge.conformance.emulator;

import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/**
 * Checks a program in the Metal Shading Language without a Mac. clang compiles it as C++ for OpenCL, which has Metal's address spaces; what
 * that language allows and Metal does not is found in the LLVM IR (pointers and references without an address space, recursion, too much
 * threadgroup memory) and in the text.
 *
 * @param faults what Metal would refuse; empty for a valid program
 * @param sharedBytes threadgroup memory of each kernel that has any, each array rounded up to 16
 */
record MslCheck(List<String> faults, Map<String, Integer> sharedBytes) {
    /** Threadgroup memory of every Apple GPU. */
    static final int MAX_SHARED_BYTES = 32 << 10;

    private static final Pattern FORBIDDEN =
            Pattern.compile("\\b(long long|goto|typeid|dynamic_cast|asm|thread_local|virtual|if constexpr)\\b");
    private static final Pattern COMMENT = Pattern.compile("//.*");
    private static final Pattern KERNEL = Pattern.compile("(?ms)^KERNEL\\((.*?)\\) \\{$");
    private static final Pattern NARROW_SCALAR =
            Pattern.compile("(?:^|, )(?:half|bfloat|bool) \\w+|ARG\\((?:half|bfloat|f16|bf16|bool),");
    private static final Pattern STRUCT = Pattern.compile("(?m)^(%\\S+) = type \\{ (.*) \\}$");
    private static final Pattern SHARED = Pattern.compile(
            "(?m)^@_ZZ\\d+([A-Za-z]\\w*?)E\\d+\\w+ = internal addrspace\\(3\\) global (\\[.*\\]|%\\S+|\\w+) undef");
    private static final Pattern FUNCTION = Pattern.compile("(?ms)^define [^\\n]*?@(\"[^\"]+\"|[\\w.$]+)\\((.*?)^\\}");
    private static final Pattern CALL = Pattern.compile("call [^\\n]*?@(\"[^\"]+\"|[\\w.$]+)\\(");
    private static final Pattern GENERIC_VARIABLE =
            Pattern.compile("alloca (?:ptr addrspace\\(4\\)|\\[\\d+ x ptr addrspace\\(4\\))");

    /** Constructors and assignments that the compiler defines have a generic {@code this}. */
    private static final Pattern IMPLICIT = Pattern.compile("C[12]E|aSE|simd_vote");

    private static final Pattern ARRAY = Pattern.compile("\\[(\\d+) x (.*)\\]|<(\\d+) x (.*)>");

    static MslCheck of(MslCompiler compiler, String program) {
        NativeCompiler.Result result;
        try {
            result = NativeCompiler.start(compiler.toIr(), program);
        } catch (IOException failure) {
            throw new DeviceException(compiler.command() + ": " + failure, failure);
        }
        if (result.status() != 0) {
            return new MslCheck(
                    result.output()
                            .lines()
                            .filter(line -> line.contains("error:"))
                            .toList(),
                    Map.of());
        }
        List<String> faults = new ArrayList<>(textFaults(program));
        String ir = result.output();
        faults.addAll(addressFaults(ir));
        Map<String, Integer> shared = sharedBytes(ir);
        shared.forEach((kernel, bytes) -> {
            if (bytes > MAX_SHARED_BYTES) {
                faults.add(
                        kernel + ": " + bytes + " bytes of threadgroup memory, Apple's GPUs have " + MAX_SHARED_BYTES);
            }
        });
        return new MslCheck(List.copyOf(faults), shared);
    }

    private static Set<String> textFaults(String program) {
        Set<String> faults = new TreeSet<>();
        String code = COMMENT.matcher(program).replaceAll("");
        FORBIDDEN.matcher(code).results().forEach(word -> faults.add("Metal 3.1 has no " + word.group()));
        KERNEL.matcher(code)
                .results()
                .filter(kernel -> NARROW_SCALAR.matcher(kernel.group(1)).find())
                .forEach(kernel -> faults.add("a scalar parameter of 16 bits: " + kernel.group(1)));
        return faults;
    }

    private static Set<String> addressFaults(String ir) {
        Set<String> faults = new TreeSet<>();
        Map<String, Set<String>> calls = new TreeMap<>();
        for (MatchResult function : FUNCTION.matcher(ir).results().toList()) {
            String name = function.group(1);
            String body = function.group(2);
            boolean generic =
                    name.contains("U3AS4") || GENERIC_VARIABLE.matcher(body).find();
            if (generic && !IMPLICIT.matcher(name).find()) {
                faults.add("a pointer or reference without an address space in " + name);
            }
            Set<String> called = new HashSet<>();
            CALL.matcher(body).results().forEach(call -> called.add(call.group(1)));
            calls.put(name, called);
        }
        Map<String, Boolean> finished = new HashMap<>();
        calls.keySet().forEach(name -> findRecursion(name, calls, finished, faults));
        return faults;
    }

    private static void findRecursion(
            String name, Map<String, Set<String>> calls, Map<String, Boolean> finished, Set<String> faults) {
        if (finished.containsKey(name)) {
            return;
        }
        finished.put(name, false);
        for (String called : calls.getOrDefault(name, Set.of())) {
            if (Boolean.FALSE.equals(finished.get(called))) {
                faults.add("recursion: " + called);
            }
            findRecursion(called, calls, finished, faults);
        }
        finished.put(name, true);
    }

    private static Map<String, Integer> sharedBytes(String ir) {
        Map<String, String> structs = new HashMap<>();
        STRUCT.matcher(ir).results().forEach(struct -> structs.put(struct.group(1), struct.group(2)));
        Map<String, Integer> bytes = new TreeMap<>();
        SHARED.matcher(ir)
                .results()
                .forEach(array ->
                        bytes.merge(array.group(1), (size(array.group(2), structs) + 15) / 16 * 16, Integer::sum));
        return bytes;
    }

    /** Bytes of an LLVM type without padding. */
    private static int size(String type, Map<String, String> structs) {
        var array = ARRAY.matcher(type);
        if (array.matches()) {
            boolean vector = array.group(1) == null;
            return Integer.parseInt(array.group(vector ? 3 : 1)) * size(array.group(vector ? 4 : 2), structs);
        }
        String members = structs.get(type);
        if (members != null) {
            int sum = 0;
            for (String member : members.split(", ")) {
                sum += size(member, structs);
            }
            return sum;
        }
        return switch (type) {
            case "i8" -> 1;
            case "i16", "half" -> 2;
            case "i32", "float" -> 4;
            case "i64", "double" -> 8;
            default -> throw new DeviceException("the size of " + type + " is unknown");
        };
    }
}
