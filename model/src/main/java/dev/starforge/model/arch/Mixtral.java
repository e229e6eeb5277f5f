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
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.ArrayList;
import java.util.List;

/**
 * Mixtral (Jiang et al. 2024): Mistral with eight experts for each MLP, of which every token takes the two best, weighted by
 * their probabilities made to sum to one.
 */
public final class Mixtral implements Model {
    static final Architecture ARCHITECTURE =
            new Architecture("mixtral", "MixtralForCausalLM", Mixtral::new, "q_proj", "k_proj", "v_proj", "o_proj");

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
            int experts,
            int expertsPerToken,
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
                    json.slidingWindow(),
                    json.size("num_local_experts"),
                    json.size("num_experts_per_tok"),
                    (float) json.number("rms_norm_eps", 1e-5),
                    json.bool("tie_word_embeddings", false));
        }
    }

    Mixtral(JsonConfig json, WeightLoader weights) {
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
                        config.vocabSize(), config.contextLength(), config.layers(), config.kvHeads(), config.headDim())
                .withWindow(config.slidingWindow());
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
                    Mlp.load(config, path + ".block_sparse_moe", weights),
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
            RotaryEmbedding rotary) {
        static Attention load(Config config, RotaryEmbedding rotary, int layer, String path, WeightLoader weights) {
            int hiddenSize = config.hiddenSize();
            int qDim = config.heads() * config.headDim();
            int kvDim = config.kvHeads() * config.headDim();
            return new Attention(
                    config,
                    layer,
                    weights.projection(path + ".q_proj", hiddenSize, qDim, false),
                    weights.projection(path + ".k_proj", hiddenSize, kvDim, false),
                    weights.projection(path + ".v_proj", hiddenSize, kvDim, false),
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
            Tensor attended = kv.attend(ops, q, batch, scale, config.slidingWindow());
            return oProj.apply(ops, ops.joinHeads(attended));
        }
    }

    private record Mlp(Projection router, int expertsPerToken, ExpertStack experts) {
        static Mlp load(Config config, String path, WeightLoader weights) {
            return new Mlp(
                    weights.projection(path + ".gate", config.hiddenSize(), config.experts(), false),
                    config.expertsPerToken(),
                    weights.experts(
                            path + ".experts",
                            config.experts(),
                            config.hiddenSize(),
                            config.intermediateSize(),
                            "w1",
                            "w3",
                            "w2"));
        }

        Tensor forward(Ops ops, Tensor hiddenStates) {
            Tensor scores = ops.run(new Plain.Softmax(), router.logits(ops, hiddenStates));
            Tensor topExperts = ops.run(new Routing.Route(expertsPerToken, 1, 1, 1), scores);
            Tensor topWeights = ExpertStack.normalizeWeights(ops, ops.run(new Plain.Pick(), scores, topExperts), 0);
            return experts.forward(ops, hiddenStates, topExperts, topWeights);
        }
    }
}
