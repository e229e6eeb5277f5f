package dev.starforge.train.quantize;

import dev.starforge.data.Dataset;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocuments;
import dev.starforge.text.TokenIdList;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.TrainException;
import java.io.IOException;
import java.nio.charset.MalformedInputException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Text as sequences of equal length, to calibrate a quantizer or to measure its result: a text file, or a split of a dataset,
 * whose documents are joined.
 *
 * @param source where it was read from
 * @param chunks the sequences
 */
public record CalibrationText(Path source, List<int[]> chunks) {
    /** Tokens of a sequence, as in llama-imatrix and llama-perplexity. */
    public static final int CHUNK = 512;

    private static final int LEAST_CHUNKS = 4;

    public CalibrationText {
        chunks = List.copyOf(chunks);
    }

    /**
     * Reads at most {@code most} sequences, spread evenly over the text.
     *
     * @param split the split of a dataset; a file is read whole
     * @param vocabulary the model's number of ids
     */
    public static CalibrationText read(Path source, Split split, Tokenizer tokenizer, int vocabulary, int most) {
        int[] ids = Files.isDirectory(source) ? dataset(source, split, vocabulary) : file(source, tokenizer);
        int available = ids.length / CHUNK;
        if (available < LEAST_CHUNKS) {
            throw new TrainException(source + ": has " + ids.length + " tokens, expected at least "
                    + LEAST_CHUNKS * CHUNK + " (" + LEAST_CHUNKS + " sequences of " + CHUNK + "); pass more text");
        }
        int count = Math.min(most, available);
        List<int[]> chunks = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int at = (int) ((long) available * i / count) * CHUNK;
            chunks.add(Arrays.copyOfRange(ids, at, at + CHUNK));
        }
        return new CalibrationText(source, chunks);
    }

    private static int[] file(Path source, Tokenizer tokenizer) {
        try {
            return tokenizer.encode(Files.readString(source), false);
        } catch (MalformedInputException failure) {
            throw new TrainException(source + ": is not UTF-8 text", failure);
        } catch (IOException failure) {
            throw new TrainException(source + ": cannot be read: " + failure.getMessage(), failure);
        }
    }

    private static int[] dataset(Path source, Split split, int vocabulary) {
        try (Dataset dataset = Dataset.open(source)) {
            if (dataset.vocabularySize() > vocabulary) {
                throw new TrainException(source + ": has token ids up to " + (dataset.vocabularySize() - 1)
                        + ", but the model has " + vocabulary + "; build it with the model's tokenizer");
            }
            TokenDocuments documents = dataset.documents(split);
            TokenIdList ids = new TokenIdList();
            for (int d = 0; d < documents.count(); d++) {
                for (int id : documents.read(d).ids()) {
                    ids.add(id);
                }
            }
            return ids.toArray();
        }
    }
}
