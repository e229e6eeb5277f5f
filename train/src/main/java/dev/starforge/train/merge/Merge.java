package dev.starforge.train.merge;

import dev.starforge.model.Quantization;
import dev.starforge.model.convert.LoraMerger;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.file.OutputLock;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.text.Tokenizers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Merges an adapter into its base and writes one model. Reads the model back and verifies that it computes what base +
 * adapter compute, and not what the base does. If verification fails, the output is removed.
 */
public final class Merge implements AutoCloseable {
    private static final String LARGEST = "F32";

    private final Path base;
    private final Path adapter;
    private final Quantization onto;
    private final Device device;
    private final LoraMerger merger;

    /** The verification result; {@code notes} are messages for the user. */
    public record Result(MergeProof proof, List<String> notes) {}

    /** Thrown if a merged model in one type fails verification, and a larger type would round its weights less. */
    public static final class RoundingException extends TrainException {
        private static final long serialVersionUID = 1;

        RoundingException(String message) {
            super(message);
        }
    }

    /** @param onto quantization of the base before the merge; NONE for the weights as stored */
    public Merge(Path base, Path adapter, Quantization onto, Device device) {
        this.base = base;
        this.adapter = adapter;
        this.onto = onto;
        this.device = device;
        this.merger = new LoraMerger(base, adapter, onto, device);
    }

    /** The format of the base. */
    public static ModelFormat formatOf(Path base) {
        return Files.isDirectory(base) ? ModelFormat.HF : ModelFormat.GGUF;
    }

    /** Writes only the adapter, in llama.cpp's format. */
    public void writeGgufAdapter(Path file) throws IOException {
        try (OutputLock _ = OutputLock.take(file, "starforge")) {
            merger.writeGgufAdapter(file);
        }
    }

    /**
     * Writes the merged model in a type, or in F32 if the type does not prove it: the rounding of a small type may be larger
     * than what a barely trained adapter changes.
     *
     * @param type of the matrices: F32, BF16 or F16; empty for the types of the base, with F16 for changed matrices that a
     *     GGUF base has quantized
     * @param shardBytes maximum size of a file in a folder
     */
    public Result write(Path out, ModelFormat format, String type, long shardBytes) throws IOException {
        return write(out, format, type.equals(LARGEST) ? List.of(type) : List.of(type, LARGEST), shardBytes);
    }

    /**
     * Writes the merged model in one type.
     *
     * @throws RoundingException if its rounding is larger than what the adapter changes
     */
    public Result writeAs(Path out, ModelFormat format, String type, long shardBytes) throws IOException {
        return write(out, format, List.of(type), shardBytes);
    }

    private Result write(Path out, ModelFormat format, List<String> types, long shardBytes) throws IOException {
        try (PartialOutput partial = new PartialOutput(out, format)) {
            for (String type : types) {
                Checkpoints.remove(partial.path());
                List<String> notes = new ArrayList<>(write(partial.path(), format, type, shardBytes, formatOf(base)));
                MergeProof proof = MergeProof.of(base, adapter, onto, partial.path(), device);
                if (proof.holds()) {
                    if (!type.equals(types.getFirst())) {
                        notes.add("the changed matrices are " + type
                                + ", since a smaller type would round away a part of what the adapter changes");
                    }
                    partial.publish();
                    return new Result(proof, notes);
                }
                if (type.equals(types.getLast()) || proof.change() == 0) {
                    String failure = out + ": " + proof.verdict();
                    throw type.equals(LARGEST) || proof.change() == 0
                            ? new TrainException(failure)
                            : new RoundingException(failure);
                }
            }
            throw new IllegalArgumentException("merge: no type");
        }
    }

    private List<String> write(Path partial, ModelFormat format, String type, long shardBytes, ModelFormat from)
            throws IOException {
        List<String> notes = new ArrayList<>();
        if (format == ModelFormat.GGUF && from == ModelFormat.GGUF) {
            merger.writeGguf(partial, type);
        } else if (format == ModelFormat.GGUF) {
            notes.addAll(merger.exportGguf(partial, type, Tokenizers.metadata(base)));
            if (Tokenizers.find(base).isEmpty()) {
                notes.add("the base has no tokenizer.json, so the file has no vocabulary");
            }
        } else {
            merger.writeFolder(partial, type, shardBytes);
            if (from == ModelFormat.GGUF && !Tokenizers.writeJson(base, partial)) {
                notes.add("no tokenizer.json was written: the vocabulary is missing, or has scores, which "
                        + "tokenizer.json cannot hold");
            }
        }
        return notes;
    }

    @Override
    public void close() {
        merger.close();
    }
}
