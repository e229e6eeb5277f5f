package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.Nf4;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * NF4 weights in the layout of bitsandbytes. The quantized values have the name of the weight; absmax values, code maps
 * and the quantization state (JSON as bytes) are tensors with suffixes. Supports plain and double quantization and any
 * block size.
 */
public final class BitsAndBytes {
    private static final String STATE = ".quant_state.bitsandbytes__nf4";

    /** Suffixes of the names of a weight's other tensors. */
    static final List<String> PARTS = List.of(STATE, ".nested_absmax", ".absmax", ".nested_quant_map", ".quant_map");

    private static final JsonMapper JSON = new JsonMapper();

    private BitsAndBytes() {}

    /** A weight and its original shape; the quantized values are flattened. */
    public record Nf4Weight(Shape shape, Nf4 quants) {}

    /** Returns true if the file stores {@code name} as NF4. */
    public static boolean has(Safetensors file, String name) {
        return file.has(name + STATE);
    }

    /**
     * The layout of a weight, known without reading its values.
     *
     * @param isNested true if the absmax values are quantized too (double quantization)
     * @param nestedBlock absmax values per block of the second quantization
     * @param offset added to every dequantized absmax value
     * @param hasOurMap true if the code map of the absmax values is {@link Nf4#dynamicMap}
     */
    record Nf4Layout(Shape shape, int block, boolean isNested, int nestedBlock, float offset, boolean hasOurMap) {}

    static Nf4Layout layout(Safetensors file, String name) {
        JsonNode state = state(file, name);
        if (!state.path("quant_type").stringValue("").equals("nf4")
                || !Arrays.equals(Nf4.quants16(), file.floats(name + ".quant_map"))) {
            throw new ModelException(file.path(), "tensor " + name + ": expected the NF4 table and quant_type nf4");
        }
        if (!state.path("shape").isArray()) {
            throw new ModelException(file.path(), "tensor " + name + STATE + ": expected a list as shape");
        }
        Shape shape = shape(file, name, state.path("shape"));
        int block = whole(file, name, state.path("blocksize"), "blocksize");
        if (!file.has(name + ".nested_absmax")) {
            return new Nf4Layout(shape, block, false, 1, 0, true);
        }
        JsonNode offset = state.path("nested_offset");
        if (!offset.isNumber() || !Float.isFinite(offset.floatValue())) {
            throw new ModelException(file.path(), "tensor " + name + STATE + ": nested_offset is " + offset);
        }
        return new Nf4Layout(
                shape,
                block,
                true,
                whole(file, name, state.path("nested_blocksize"), "nested_blocksize"),
                offset.floatValue(),
                Arrays.equals(Nf4.dynamicMap(), file.floats(name + ".nested_quant_map")));
    }

    private static Shape shape(Safetensors file, String name, JsonNode sizes) {
        long[] dims = new long[sizes.size()];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = whole(file, name, sizes.get(i), "shape");
        }
        try {
            return Shape.of(dims);
        } catch (TensorException wrong) {
            throw new ModelException(file.path(), "tensor " + name + STATE + ": " + wrong.getMessage(), wrong);
        }
    }

    public static Nf4Weight read(Safetensors file, String name) {
        Nf4Layout layout = layout(file, name);
        byte[] quants = bytes(file, name);
        try {
            int size = Math.toIntExact(layout.shape().size());
            return new Nf4Weight(layout.shape(), new Nf4(size, layout.block(), quants, absmax(file, name, layout)));
        } catch (TensorException | ArithmeticException wrong) {
            throw new ModelException(file.path(), "tensor " + name + ": " + wrong.getMessage(), wrong);
        }
    }

    private static Nf4.Absmax absmax(Safetensors file, String name, Nf4Layout layout) {
        if (!layout.isNested()) {
            return new Nf4.Absmax.Plain(file.floats(name + ".absmax"));
        }
        return new Nf4.Absmax.Nested(
                bytes(file, name + ".absmax"),
                file.floats(name + ".nested_quant_map"),
                file.floats(name + ".nested_absmax"),
                layout.nestedBlock(),
                layout.offset());
    }

    private static JsonNode state(Safetensors file, String name) {
        try {
            return JSON.readTree(new String(bytes(file, name + STATE), StandardCharsets.UTF_8));
        } catch (JacksonException failure) {
            throw new ModelException(
                    file.path(), "tensor " + name + STATE + " is not JSON: " + failure.getOriginalMessage(), failure);
        }
    }

    private static int whole(Safetensors file, String name, JsonNode value, String key) {
        if (!value.isIntegralNumber() || !value.canConvertToInt() || value.intValue() < 0) {
            throw new ModelException(
                    file.path(), "tensor " + name + STATE + ": " + key + " is " + value + ", expected a whole number");
        }
        return value.intValue();
    }

    private static byte[] bytes(Safetensors file, String name) {
        return file.bytes(name, "U8").array();
    }

    /**
     * Returns the tensors that store a weight. {@code dtype} is its type before quantization: float32, float16 or
     * bfloat16.
     */
    public static List<SafetensorsFile.SafetensorsData> entries(String name, Nf4Weight weight, String dtype) {
        Nf4 nf4 = weight.quants();
        ObjectNode state = JSON.createObjectNode();
        state.put("quant_type", "nf4").put("blocksize", nf4.block()).put("dtype", dtype);
        ArrayNode shape = state.putArray("shape");
        for (long dim : weight.shape().dims()) {
            shape.add(dim);
        }
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        entries.add(bytes(name, nf4.quants(), nf4.quants().length, 1));
        switch (nf4.absmax()) {
            case Nf4.Absmax.Plain(float[] values) -> entries.add(floats(name + ".absmax", values));
            case Nf4.Absmax.Nested nested -> {
                entries.add(bytes(name + ".absmax", nested.quants(), nested.quants().length));
                entries.add(floats(name + ".nested_absmax", nested.absmax()));
                entries.add(floats(name + ".nested_quant_map", nested.map()));
                state.put("nested_blocksize", nested.block()).put("nested_dtype", "float32");
                state.put("nested_offset", (double) nested.offset());
            }
        }
        entries.add(floats(name + ".quant_map", Nf4.quants16()));
        byte[] json = JSON.writeValueAsString(state).getBytes(StandardCharsets.UTF_8);
        entries.add(bytes(name + STATE, json, json.length));
        return entries;
    }

    private static SafetensorsFile.SafetensorsData floats(String name, float... values) {
        return SafetensorsFile.SafetensorsData.of(name, Shape.of(values.length), values);
    }

    private static SafetensorsFile.SafetensorsData bytes(String name, byte[] values, long... dims) {
        return new SafetensorsFile.SafetensorsData(name, "U8", Shape.of(dims), ByteBuffer.wrap(values));
    }
}
