package dev.starforge.model.file;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.Int4Gptq;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * 4-bit GPTQ in the layout of AutoGPTQ, version 1: the tensors {@code x.qweight}, {@code x.qzeros}, {@code x.scales}
 * and {@code x.g_idx} store the weight {@code x.weight} of a projection. With {@code desc_act}, {@code g_idx} maps each
 * input to its group; without it, groups are consecutive inputs. At most one projection is in memory, packed as in the
 * file.
 */
final class GptqSource extends PrequantizedSource {
    private static final Pattern PART = Pattern.compile("(.*)\\.(qweight|qzeros|scales|g_idx)");
    private static final int PIECE = 1 << 20;

    /** Inputs per scale, or -1 for one scale for all inputs. */
    private final int group;

    private String heldName = "";
    private Int4Gptq held = Int4Gptq.encode(new float[0], 8, 0, 1);

    private GptqSource(Safetensors file, int group) {
        super(file);
        this.group = group;
    }

    static GptqSource of(Safetensors file, JsonConfig quantization) {
        if (quantization.integer("bits") != 4) {
            throw quantization.invalid("bits", "4: GPTQ is supported with 4 bits only");
        }
        if (!quantization.string("checkpoint_format", "gptq").equals("gptq")) {
            throw quantization.invalid("checkpoint_format", "gptq: other checkpoint formats of GPTQ are not supported");
        }
        int group = quantization.integer("group_size");
        if (group != -1 && group < 1) {
            throw quantization.invalid("group_size", "-1 or a number above 0");
        }
        return new GptqSource(file, group);
    }

    private static String part(String name, String part) {
        return name.substring(0, name.length() - "weight".length()) + part;
    }

    @Override
    boolean isPacked(String name) {
        return name.endsWith(".weight") && file.has(part(name, "qweight"));
    }

    @Override
    public String weightOf(String tensor) {
        Matcher part = PART.matcher(tensor);
        return part.matches() && isPacked(part.group(1) + ".weight") ? part.group(1) + ".weight" : tensor;
    }

    @Override
    Shape packedShape(String name) {
        Shape words = file.tensor(part(name, "qweight")).shape();
        if (words.rank() != 2) {
            throw new ModelException(path(), "tensor " + part(name, "qweight") + ": expected a matrix, got " + words);
        }
        return Shape.of(words.dim(1), 8 * words.dim(0));
    }

    private int groups(int in) {
        return group == -1 ? 1 : Math.ceilDiv(in, group);
    }

    @Override
    Optional<DType> packedType(String name) {
        int in = Math.toIntExact(packedShape(name).last());
        return Int4Gptq.type(in, groups(in));
    }

    @Override
    public void readPlanes(String name, Consumer<ByteBuffer> piece) {
        packed(name).planes(packedType(name).orElseThrow(), PIECE, piece);
    }

    @Override
    synchronized void readPacked(String name, long first, float[] out, int count) {
        if (!heldName.equals(name)) {
            held = packed(name);
            heldName = name;
        }
        for (int i = 0; i < count; i++) {
            out[i] = held.weight((int) ((first + i) / held.in()), (int) ((first + i) % held.in()));
        }
    }

    private Int4Gptq packed(String name) {
        Shape shape = packedShape(name);
        int out = Math.toIntExact(shape.dim(0));
        int in = Math.toIntExact(shape.dim(1));
        short[] scales = new short[groups(in) * out];
        ByteBuffer halves = file.bytes(part(name, "scales"), "F16");
        if (halves.remaining() != Short.BYTES * scales.length) {
            throw new ModelException(
                    path(),
                    "tensor " + part(name, "scales") + ": expected " + groups(in) + " x " + out + ", got "
                            + file.tensor(part(name, "scales")).shape());
        }
        halves.asShortBuffer().get(scales);
        for (int i = 0; i < scales.length; i++) {
            if (!Float.isFinite(Float.float16ToFloat(scales[i]))) {
                throw new ModelException(
                        path(),
                        "tensor " + part(name, "scales") + ": element " + i + " is " + Float.float16ToFloat(scales[i]));
            }
        }
        int[] gIdx = new int[in];
        Arrays.setAll(gIdx, i -> group == -1 ? 0 : i / group);
        if (file.has(part(name, "g_idx"))) {
            gIdx = file.ints(part(name, "g_idx"));
        }
        try {
            return new Int4Gptq(
                    in, out, file.ints(part(name, "qweight")), file.ints(part(name, "qzeros")), scales, gIdx);
        } catch (TensorException wrong) {
            throw new ModelException(path(), "tensor " + name + ": " + wrong.getMessage(), wrong);
        }
    }
}
