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
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.text.Continuation;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.nio.file.Path;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/**
 * A loaded causal language model for code completion and fill-in-the-middle. {@link Starforge#load} creates it. Close it
 * before the {@link Starforge} that loaded it. Not thread-safe: use one thread at a time.
 *
 * <p>Weights keep the type they have in the file, quantized or not, if the device computes with it. Activations are float32,
 * the KV cache is float16.
 */
public final class CodeModel implements AutoCloseable {
    static final Precision PRECISION =
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
     * Returns the model architecture.
     *
     * @return the {@code model_type} of HF transformers, such as {@code starcoder2} or {@code qwen2}
     */
    public String architecture() {
        return files.architecture();
    }

    /**
     * Returns the context length.
     *
     * @return the maximum number of tokens, prompt and completion together
     */
    public int context() {
        return model.info().contextLength();
    }

    /**
     * Counts the tokens of a text, including the BOS token if the tokenizer adds one.
     *
     * @param text to tokenize
     * @return the number of tokens
     */
    public int tokens(String text) {
        return StarforgeException.guard(() -> tokenizer.encode(text, true).length);
    }

    /**
     * Generates a completion of a prompt.
     *
     * @param prompt text to continue; must not be empty unless the tokenizer adds a BOS token
     * @param config length limit, sampling parameters and stop strings
     * @return the completion
     */
    public Completion complete(String prompt, GenerationConfig config) {
        return complete(prompt, config, piece -> true);
    }

    /**
     * Generates a completion of a prompt and streams it to a listener.
     *
     * @param prompt text to continue; must not be empty unless the tokenizer adds a BOS token
     * @param config length limit, sampling parameters and stop strings
     * @param listener receives each piece of text on the calling thread
     * @return the completion
     */
    public Completion complete(String prompt, GenerationConfig config, TextListener listener) {
        return StarforgeException.guard(() -> generate(
                HealedPrompt.asIs(tokenizer.encode(prompt, true)),
                new TreeSet<>(files.eosTokenIds()),
                config,
                listener));
    }

    /**
     * Generates the text between a prefix and a suffix (fill-in-the-middle), with the model's FIM tokens. The
     * prefix may end anywhere, also inside a word: its end is tokenized together with the middle (token healing).
     *
     * @param prefix text before the cursor
     * @param suffix text after the cursor
     * @param config length limit, sampling parameters and stop strings
     * @param listener receives each piece of text on the calling thread
     * @return the completion, which is the middle
     */
    public Completion infill(String prefix, String suffix, GenerationConfig config, TextListener listener) {
        return StarforgeException.guard(() -> {
            FillInMiddle fim = FillInMiddle.of(tokenizer, tuned.model());
            Set<Integer> eosTokenIds = new TreeSet<>(files.eosTokenIds());
            eosTokenIds.addAll(fim.ends());
            return generate(fim.prompt(prefix, suffix, true), eosTokenIds, config, listener);
        });
    }

    private Completion generate(
            HealedPrompt healed, Set<Integer> eosTokenIds, GenerationConfig config, TextListener listener) {
        int[] prompt = healed.ids();
        if (prompt.length == 0) {
            throw new StarforgeException("the prompt is empty, and the tokenizer of this model adds no BOS token");
        }
        long room = (long) prompt.length + config.maxTokens();
        if (room > context()) {
            throw new StarforgeException(prompt.length + " prompt tokens and " + config.maxTokens()
                    + " new tokens exceed the model's context of " + context());
        }
        CompletionBuilder completion =
                new CompletionBuilder(new Continuation(tokenizer, healed, config.stopStrings()), eosTokenIds, listener);
        Sampler sampler = new Sampler(config.sampling(), model.info().vocabSize(), prompt);
        try (Generator generator = new Generator(model, device, PRECISION, Fallback.QUIET, (int) room)) {
            generator.generate(prompt, healed::allowed, sampler, config.maxTokens(), completion::accept);
        }
        return completion.build(prompt.length);
    }

    /** Releases the weights. */
    @Override
    public void close() {
        files.close();
        weights.close();
    }

    /** Collects a completion and passes it to the listener. */
    private static final class CompletionBuilder {
        private final Continuation continuation;
        private final Set<Integer> eosTokenIds;
        private final TextListener listener;
        private Completion.EndReason endReason = Completion.EndReason.MAX_TOKENS;
        private int tokens;

        CompletionBuilder(Continuation continuation, Set<Integer> eosTokenIds, TextListener listener) {
            this.continuation = continuation;
            this.eosTokenIds = eosTokenIds;
            this.listener = listener;
        }

        boolean accept(int id) {
            tokens++;
            if (eosTokenIds.contains(id)) {
                endReason = Completion.EndReason.EOS_TOKEN;
                return false;
            }
            emit(continuation.push(id));
            return endReason == Completion.EndReason.MAX_TOKENS;
        }

        Completion build(int promptTokens) {
            emit(continuation.finish());
            return new Completion(continuation.text(), promptTokens, tokens, endReason);
        }

        private void emit(String piece) {
            if (continuation.stopSequence().isPresent()) {
                endReason = Completion.EndReason.STOP_STRING;
            }
            if (!piece.isEmpty() && endReason != Completion.EndReason.CANCELLED && !listener.onText(piece)) {
                endReason = endReason == Completion.EndReason.MAX_TOKENS ? Completion.EndReason.CANCELLED : endReason;
            }
        }
    }
}
