package dev.starforge.api;

import dev.starforge.model.Model;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampler;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.text.Continuation;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.nio.file.Path;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/**
 * A model that is loaded: it continues texts and fills gaps in them. For one thread at a time, and to be closed before the
 * {@link Starforge} that loaded it. Weights are kept as the file has them where the device computes with that type.
 */
public final class CodeModel implements AutoCloseable {
    private static final Precision PRECISION =
            Precision.of(DType.F32).withKv(DType.F16).withWeightsAsStored().withInt8Activations(true);

    private final Device device;
    private final TunedModel tuned;
    private final ModelFiles files;
    private final Scope weights;
    private final Model model;
    private final Tokenizer tokenizer;

    CodeModel(Path place, Device device) {
        this.device = device;
        tuned = TunedModel.of(place, Optional.empty(), Path::of);
        files = ModelFiles.open(tuned.model());
        weights = new Scope(device);
        try {
            tokenizer = Tokenizers.require(tuned.model(), "text");
            model = tuned.load(files, weights, PRECISION);
        } catch (RuntimeException failure) {
            close();
            throw failure;
        }
    }

    /**
     * The kind of model.
     *
     * @return its architecture as its file names it, such as starcoder2
     */
    public String architecture() {
        return files.architecture();
    }

    /**
     * How long a text may be.
     *
     * @return tokens, prompt and answer together
     */
    public int context() {
        return model.info().contextLength();
    }

    /**
     * How long a text is to this model.
     *
     * @param text to count
     * @return its tokens
     */
    public int tokens(String text) {
        return StarforgeException.guard(() -> tokenizer.encode(text, true).length);
    }

    /**
     * Continues a text.
     *
     * @param prompt what is there; not empty for models that begin with nothing
     * @param how long, how varied, up to what
     * @return what follows
     */
    public Completion complete(String prompt, GenerationConfig config) {
        return complete(prompt, config, piece -> true);
    }

    /**
     * The same, heard while it is written.
     *
     * @param prompt what is there
     * @param how long, how varied, up to what
     * @param listener hears each piece as it comes, on this thread
     * @return what followed
     */
    public Completion complete(String prompt, GenerationConfig config, TextListener listener) {
        return StarforgeException.guard(
                () -> generate(tokenizer.encode(prompt, true), new TreeSet<>(files.eosTokenIds()), config, listener));
    }

    /**
     * Fills in what is missing between two texts, by the model's own tokens for that.
     *
     * @param prefix what comes before
     * @param suffix what comes after
     * @param how long, how varied, up to what
     * @param listener hears each piece as it comes, on this thread
     * @return the middle
     */
    public Completion infill(String prefix, String suffix, GenerationConfig config, TextListener listener) {
        return StarforgeException.guard(() -> {
            FillInMiddle fim = FillInMiddle.of(tokenizer, tuned.model());
            Set<Integer> ends = new TreeSet<>(files.eosTokenIds());
            ends.addAll(fim.ends());
            return generate(fim.prompt(prefix, suffix), ends, config, listener);
        });
    }

    private Completion generate(int[] prompt, Set<Integer> ends, GenerationConfig config, TextListener listener) {
        if (prompt.length == 0) {
            throw new StarforgeException("the prompt is empty, and this model's tokenizer puts nothing before it");
        }
        long room = (long) prompt.length + config.maxTokens();
        if (room > context()) {
            throw new StarforgeException(prompt.length + " prompt tokens and " + config.maxTokens()
                    + " new ones exceed the model's context of " + context());
        }
        CompletionBuilder completion =
                new CompletionBuilder(new Continuation(tokenizer, prompt, config.stopStrings()), ends, listener);
        Sampler sampler = new Sampler(config.sampling(), model.info().vocabSize(), prompt);
        try (Generator generator = new Generator(model, device, PRECISION, Fallback.QUIET, (int) room)) {
            generator.generate(prompt, sampler, config.maxTokens(), completion::wantsMoreAfter);
        }
        return completion.completion(prompt.length);
    }

    /** Releases the weights. */
    @Override
    public void close() {
        files.close();
        weights.close();
    }

    /** What came so far. */
    private static final class CompletionBuilder {
        private final Continuation continuation;
        private final Set<Integer> ends;
        private final TextListener listener;
        private Completion.EndReason end = Completion.EndReason.MAX_TOKENS;
        private int tokens;

        CompletionBuilder(Continuation continuation, Set<Integer> ends, TextListener listener) {
            this.continuation = continuation;
            this.ends = ends;
            this.listener = listener;
        }

        boolean wantsMoreAfter(int id) {
            tokens++;
            if (ends.contains(id)) {
                end = Completion.EndReason.EOS_TOKEN;
                return false;
            }
            tell(continuation.push(id));
            return end == Completion.EndReason.MAX_TOKENS;
        }

        Completion completion(int promptTokens) {
            tell(continuation.finish());
            return new Completion(continuation.text(), promptTokens, tokens, end);
        }

        private void tell(String piece) {
            if (continuation.stopSequence().isPresent()) {
                end = Completion.EndReason.STOP_STRING;
            }
            if (!piece.isEmpty() && end != Completion.EndReason.CANCELLED && !listener.onText(piece)) {
                end = end == Completion.EndReason.MAX_TOKENS ? Completion.EndReason.CANCELLED : end;
            }
        }
    }
}
