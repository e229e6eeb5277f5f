package dev.starforge.model.arch;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.layer.ExpertStack;
import dev.starforge.model.layer.Projection;
import dev.starforge.model.layer.RotaryEmbedding;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Qwen3-MoE (Yang et al. 2025): Qwen3 with small experts for each MLP and no shared one.
 */
public final class Qwen3Moe implements Model {
    static final Architecture ARCHITECTURE = new Architecture(
            "qwen3_moe",
            "Qwen3MoeForCausalLM",
            Qwen3Moe::new,
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
            int experts,
            int expertsPerToken,
            int moeIntermediateSize,
            boolean normTopkProb,
            Set<Integer> denseLayers,
            float normEps,
            boolean attentionBias,
            boolean tieWordEmbeddings) {
        static Config of(JsonConfig json) {
            if (!json.string("hidden_act", "silu").equals("silu")) {
                throw json.invalid("hidden_act", "silu");
            }
            if (json.size("decoder_sparse_step", 1) != 1) {
                throw json.invalid("decoder_sparse_step", "1, since other steps are not supported");
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
                    json.size("num_experts", json.size("num_local_experts", 1)),
                    json.size("num_experts_per_tok"),
                    json.size("moe_intermediate_size"),
                    json.bool("norm_topk_prob", false),
                    json.integers("mlp_only_layers"),
                    (float) json.number("rms_norm_eps", 1e-6),
                    json.bool("attention_bias", false),
                    json.bool("tie_word_embeddings", false));
        }
    }

    Qwen3Moe(JsonConfig json, WeightLoader weights) {
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

    private record Block(
            Norm inputNorm, Attention attention, Norm postAttentionNorm, FeedForward mlp, List<Parameter> matrices)
            implements Model.Block {
        static Block load(Config config, RotaryEmbedding rotary, int layer, WeightLoader weights) {
            String path = "model.layers." + layer;
            return new Block(
                    Norm.load(weights, path + ".input_layernorm", config),
                    Attention.load(config, rotary, layer, path + ".self_attn", weights),
                    Norm.load(weights, path + ".post_attention_layernorm", config),
                    FeedForward.load(config, layer, path + ".mlp", weights),
                    weights.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            Tensor attended = attention.forward(ops, inputNorm.apply(ops, hiddenStates), batch, cache);
            Ops.Residual h = postAttentionNorm.add(ops, hiddenStates, attended);
            return ops.add(h.stream(), mlp.forward(ops, h.norm()));
        }
    }

    private record Attention(
            Config config,
            int layer,
            Projection qProj,
            Projection kProj,
            Projection vProj,
            Projection oProj,
            Norm qNorm,
            Norm kNorm,
            RotaryEmbedding rotary) {
        static Attention load(Config config, RotaryEmbedding rotary, int layer, String path, WeightLoader weights) {
            int hiddenSize = config.hiddenSize();
            int qDim = config.heads() * config.headDim();
            int kvDim = config.kvHeads() * config.headDim();
            return new Attention(
                    config,
                    layer,
                    weights.projection(path + ".q_proj", hiddenSize, qDim, config.attentionBias()),
                    weights.projection(path + ".k_proj", hiddenSize, kvDim, config.attentionBias()),
                    weights.projection(path + ".v_proj", hiddenSize, kvDim, config.attentionBias()),
                    weights.projection(path + ".o_proj", qDim, hiddenSize, config.attentionBias()),
                    new Norm(weights.vector(path + ".q_norm.weight", config.headDim()), config.normEps()),
                    new Norm(weights.vector(path + ".k_norm.weight", config.headDim()), config.normEps()),
                    rotary);
        }

        Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            List<Tensor> qkv = Projection.applyAll(ops, hiddenStates, qProj, kProj, vProj);
            Tensor q = ops.splitHeads(qkv.get(0), config.heads());
            Tensor k = ops.splitHeads(qkv.get(1), config.kvHeads());
            Tensor v = ops.splitHeads(qkv.get(2), config.kvHeads());
            q = rotary.rotate(ops, qNorm.apply(ops, q), batch);
            k = rotary.rotate(ops, kNorm.apply(ops, k), batch);
            KvCache.Kv kv = cache.append(ops, layer, k, v, batch);
            float scale = (float) (1 / Math.sqrt(config.headDim()));
            int window = layer >= config.firstWindowLayer() ? config.slidingWindow() : 0;
            Tensor attended = kv.attend(ops, q, batch, scale, window);
            return oProj.apply(ops, ops.joinHeads(attended));
        }
    }

    /** The feed-forward part of a block: one dense MLP, or a mixture of experts. */
    private interface FeedForward {
        Tensor forward(Ops ops, Tensor hiddenStates);

        static FeedForward load(Config config, int layer, String path, WeightLoader weights) {
            return config.denseLayers().contains(layer)
                    ? Mlp.load(config.hiddenSize(), config.intermediateSize(), path, weights)
                    : Moe.load(config, path, weights);
        }
    }

    private record Mlp(Projection gateProj, Projection upProj, Projection downProj) implements FeedForward {
        static Mlp load(int hiddenSize, int intermediateSize, String path, WeightLoader weights) {
            return new Mlp(
                    weights.projection(path + ".gate_proj", hiddenSize, intermediateSize, false),
                    weights.projection(path + ".up_proj", hiddenSize, intermediateSize, false),
                    weights.projection(path + ".down_proj", intermediateSize, hiddenSize, false));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates) {
            List<Tensor> gateUp = Projection.applyAll(ops, hiddenStates, gateProj, upProj);
            return downProj.apply(ops, ops.gated(Fn.SILU, gateUp.get(0), gateUp.get(1)));
        }
    }

    private record Moe(Config config, Projection router, ExpertStack experts) implements FeedForward {
        static Moe load(Config config, String path, WeightLoader weights) {
            return new Moe(
                    config,
                    weights.projection(path + ".gate", config.hiddenSize(), config.experts(), false),
                    weights.experts(
                            path + ".experts",
                            config.experts(),
                            config.hiddenSize(),
                            config.moeIntermediateSize(),
                            "gate_proj",
                            "up_proj",
                            "down_proj"));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates) {
            Tensor scores = ops.run(new Plain.Softmax(), router.logits(ops, hiddenStates));
            Tensor topExperts = ops.run(new Routing.Route(config.expertsPerToken(), 1, 1, 1), scores);
            Tensor topWeights = ops.run(new Plain.Pick(), scores, topExperts);
            topWeights = config.normTopkProb() ? ExpertStack.normalizeWeights(ops, topWeights, 0) : topWeights;
            return experts.forward(ops, hiddenStates, topExperts, topWeights);
        }
    }
}
