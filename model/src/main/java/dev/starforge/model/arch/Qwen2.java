package dev.starforge.model.arch;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.layer.Projection;
import dev.starforge.model.layer.RotaryEmbedding;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Ops;
import java.util.ArrayList;
import java.util.List;

/**
 * Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases on queries, keys and values, and a sliding window in the layers
 * from {@code max_window_layers} on when the config asks for it.
 */
public final class Qwen2 implements Model {
    static final Architecture ARCHITECTURE = new Architecture(
            "qwen2",
            "Qwen2ForCausalLM",
            Qwen2::new,
            "q_proj",
            "k_proj",
            "v_proj",
            "o_proj",
            "gate_proj",
            "up_proj",
            "down_proj");

    private final Config config;
    private final RotaryEmbedding rotary;
    private final Tensor embedTokens;
    private final List<Model.Block> blocks = new ArrayList<>();
    private final Norm norm;
    private final Projection lmHead;

    record Config(
            int vocabSize,
            int contextLength,
            int hiddenSize,
            int intermediateSize,
            int layers,
            int heads,
            int kvHeads,
            int headDim,
            int slidingWindow,
            int firstWindowLayer,
            float normEps,
            boolean tieWordEmbeddings) {
        static Config of(JsonConfig json) {
            if (!json.string("hidden_act", "silu").equals("silu")) {
                throw json.invalid("hidden_act", "silu");
            }
            int hiddenSize = json.size("hidden_size");
            int heads = json.size("num_attention_heads");
            return new Config(
                    json.size("vocab_size"),
                    RotaryEmbedding.contextLength(json),
                    hiddenSize,
                    json.size("intermediate_size"),
                    json.size("num_hidden_layers"),
                    heads,
                    json.size("num_key_value_heads", heads),
                    json.size("head_dim", hiddenSize / heads),
                    json.bool("use_sliding_window", false) ? json.slidingWindow() : 0,
                    json.integer("max_window_layers", 28),
                    (float) json.number("rms_norm_eps", 1e-6),
                    json.bool("tie_word_embeddings", false));
        }
    }

    Qwen2(JsonConfig json, WeightLoader weights) {
        config = Config.of(json);
        int hiddenSize = config.hiddenSize();
        embedTokens = weights.matrix("model.embed_tokens.weight", config.vocabSize(), hiddenSize);
        rotary = RotaryEmbedding.load(json, config.headDim(), weights);
        for (int layer = 0; layer < config.layers(); layer++) {
            blocks.add(Block.load(config, rotary, layer, weights));
        }
        norm = Norm.load(weights, "model.norm", config);
        lmHead = config.tieWordEmbeddings()
                ? new Projection.Linear(embedTokens)
                : weights.projection("lm_head", hiddenSize, config.vocabSize(), false);
    }

    @Override
    public Tensor embed(Ops ops, Batch batch) {
        return ops.embed(embedTokens, batch.ids());
    }

    @Override
    public List<Model.Block> blocks() {
        return blocks;
    }

    @Override
    public Tensor finalNorm(Ops ops, Tensor x) {
        return norm.apply(ops, x);
    }

    @Override
    public Tensor logits(Ops ops, Tensor hidden) {
        return lmHead.logits(ops, hidden);
    }

    @Override
    public int ropeRegime(int length) {
        return rotary.regime(length);
    }

    @Override
    public ModelInfo info() {
        return ModelInfo.of(
                config.vocabSize(), config.contextLength(), config.layers(), config.kvHeads(), config.headDim());
    }

    private record Norm(Tensor weight, float eps) {
        static Norm load(WeightLoader weights, String path, Config config) {
            return new Norm(weights.vector(path + ".weight", config.hiddenSize()), config.normEps());
        }

        Tensor apply(Ops ops, Tensor x) {
            return ops.rmsNorm(x, weight, eps);
        }

        Ops.Residual add(Ops ops, Tensor x, Tensor y) {
            return ops.addRmsNorm(x, y, weight, eps);
        }
    }

    private record Block(Norm inputNorm, Attention attention, Norm postAttentionNorm, Mlp mlp, List<Parameter> matrices)
            implements Model.Block {
        static Block load(Config config, RotaryEmbedding rotary, int layer, WeightLoader weights) {
            String path = "model.layers." + layer;
            return new Block(
                    Norm.load(weights, path + ".input_layernorm", config),
                    Attention.load(config, rotary, layer, path + ".self_attn", weights),
                    Norm.load(weights, path + ".post_attention_layernorm", config),
                    Mlp.load(config, path + ".mlp", weights),
                    weights.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            Tensor attended = attention.forward(ops, inputNorm.apply(ops, hiddenStates), batch, cache);
            return mlp.addTo(ops, postAttentionNorm.add(ops, hiddenStates, attended));
        }
    }

    private record Attention(
            Config config,
            int layer,
            Projection qProj,
            Projection kProj,
            Projection vProj,
            Projection oProj,
            RotaryEmbedding rotary) {
        static Attention load(Config config, RotaryEmbedding rotary, int layer, String path, WeightLoader weights) {
            int hiddenSize = config.hiddenSize();
            int qDim = config.heads() * config.headDim();
            int kvDim = config.kvHeads() * config.headDim();
            return new Attention(
                    config,
                    layer,
                    weights.projection(path + ".q_proj", hiddenSize, qDim, true),
                    weights.projection(path + ".k_proj", hiddenSize, kvDim, true),
                    weights.projection(path + ".v_proj", hiddenSize, kvDim, true),
                    weights.projection(path + ".o_proj", qDim, hiddenSize, false),
                    rotary);
        }

        Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            List<Tensor> qkv = Projection.applyAll(ops, hiddenStates, qProj, kProj, vProj);
            Tensor q = ops.splitHeads(qkv.get(0), config.heads());
            Tensor k = ops.splitHeads(qkv.get(1), config.kvHeads());
            Tensor v = ops.splitHeads(qkv.get(2), config.kvHeads());
            q = rotary.rotate(ops, q, batch);
            k = rotary.rotate(ops, k, batch);
            KvCache.Kv kv = cache.append(ops, layer, k, v, batch);
            float scale = (float) (1 / Math.sqrt(config.headDim()));
            int window = layer >= config.firstWindowLayer() ? config.slidingWindow() : 0;
            Tensor attended = kv.attend(ops, q, batch, scale, window);
            return oProj.apply(ops, ops.joinHeads(attended));
        }
    }

    private record Mlp(Projection gateProj, Projection upProj, Projection downProj) {
        static Mlp load(Config config, String path, WeightLoader weights) {
            return new Mlp(
                    weights.projection(path + ".gate_proj", config.hiddenSize(), config.intermediateSize(), false),
                    weights.projection(path + ".up_proj", config.hiddenSize(), config.intermediateSize(), false),
                    weights.projection(path + ".down_proj", config.intermediateSize(), config.hiddenSize(), false));
        }

        Tensor addTo(Ops ops, Ops.Residual h) {
            List<Tensor> gateUp = Projection.applyAll(ops, h.norm(), gateProj, upProj);
            return downProj.addTo(ops, h.stream(), ops.gated(Fn.SILU, gateUp.get(0), gateUp.get(1)));
        }
    }
}
