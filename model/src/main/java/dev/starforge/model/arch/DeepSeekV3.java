package dev.starforge.model.arch;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.layer.ExpertStack;
import dev.starforge.model.layer.Projection;
import dev.starforge.model.layer.RotaryEmbedding;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;

/**
 * DeepSeek-V3 and R1 (DeepSeek-AI 2024): V2 with experts scored by a sigmoid and chosen, in the best groups, with the help of
 * a bias that takes no part in their weights.
 *
 * <p>Keys and values of all heads come from one latent a token, so the latent and one rotated key are all that is cached.
 * Without a cache they are expanded for every head; with one, the expansion is absorbed into queries and outputs instead,
 * and attention runs over the latents with a single key head. Both are the same sums in another order.
 */
public final class DeepSeekV3 implements Model {
    /**
     * Adapters update attention alone by default: PEFT 0.21 takes every target that is called as the experts' matrices are
     * for those, so that it could not load an update of the shared experts or of a dense layer.
     */
    static final Architecture ARCHITECTURE = new Architecture(
            "deepseek_v3",
            "DeepseekV3ForCausalLM",
            DeepSeekV3::new,
            "q_proj",
            "q_a_proj",
            "q_b_proj",
            "kv_a_proj_with_mqa",
            "kv_b_proj",
            "o_proj");

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
            int qLoraRank,
            int kvLoraRank,
            int nopeDim,
            int ropeDim,
            int vHeadDim,
            float softmaxScale,
            int denseLayers,
            int experts,
            int expertsPerToken,
            int expertGroups,
            int topkGroups,
            int moeIntermediateSize,
            int sharedIntermediateSize,
            boolean normTopkProb,
            float routedScalingFactor,
            float normEps,
            boolean bias,
            boolean tieWordEmbeddings) {
        static Config of(JsonConfig json) {
            if (!json.string("hidden_act", "silu").equals("silu")) {
                throw json.invalid("hidden_act", "silu");
            }
            if (!json.string("scoring_func", "sigmoid").equals("sigmoid")) {
                throw json.invalid("scoring_func", "sigmoid");
            }
            if (!json.bool("rope_interleave", true)) {
                throw json.invalid("rope_interleave", "true, since the other order is not supported");
            }
            if (json.size("moe_layer_freq", 1) != 1) {
                throw json.invalid("moe_layer_freq", "1, since other steps are not supported");
            }
            int nopeDim = json.size("qk_nope_head_dim");
            int ropeDim = json.size("qk_rope_head_dim");
            return new Config(
                    json.size("vocab_size"),
                    RotaryEmbedding.contextLength(json),
                    json.size("hidden_size"),
                    json.size("intermediate_size"),
                    json.size("num_hidden_layers"),
                    json.size("num_attention_heads"),
                    json.size("q_lora_rank", 0),
                    json.size("kv_lora_rank"),
                    nopeDim,
                    ropeDim,
                    json.size("v_head_dim"),
                    (float) (RotaryEmbedding.yarnScoreScale(json) / Math.sqrt(nopeDim + ropeDim)),
                    json.integer("first_k_dense_replace", 3),
                    json.size("n_routed_experts"),
                    json.size("num_experts_per_tok"),
                    json.size("n_group", 1),
                    json.size("topk_group", 1),
                    json.size("moe_intermediate_size"),
                    json.size("moe_intermediate_size") * json.size("n_shared_experts"),
                    json.bool("norm_topk_prob", true),
                    (float) json.number("routed_scaling_factor", 2.5),
                    (float) json.number("rms_norm_eps", 1e-6),
                    json.bool("attention_bias", false),
                    json.bool("tie_word_embeddings", false));
        }
    }

    DeepSeekV3(JsonConfig json, WeightLoader weights) {
        config = Config.of(json);
        int hiddenSize = config.hiddenSize();
        embedTokens = weights.matrix("model.embed_tokens.weight", config.vocabSize(), hiddenSize);
        rotary = RotaryEmbedding.load(json, config.ropeDim(), weights);
        for (int layer = 0; layer < config.layers(); layer++) {
            blocks.add(Block.load(config, rotary, layer, weights));
        }
        norm = Norm.load(weights, "model.norm", hiddenSize, config.normEps());
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
        int cached = config.kvLoraRank() + config.ropeDim();
        return new ModelInfo(config.vocabSize(), config.contextLength(), config.layers(), 1, cached, 0, true);
    }

    private record Norm(Tensor weight, float eps) {
        static Norm load(WeightLoader weights, String path, int size, float eps) {
            return new Norm(weights.vector(path + ".weight", size), eps);
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
                    Norm.load(weights, path + ".input_layernorm", config.hiddenSize(), config.normEps()),
                    Attention.load(config, rotary, layer, path + ".self_attn", weights),
                    Norm.load(weights, path + ".post_attention_layernorm", config.hiddenSize(), config.normEps()),
                    layer < config.denseLayers()
                            ? Mlp.load(config.hiddenSize(), config.intermediateSize(), path + ".mlp", weights)
                            : Moe.load(config, path + ".mlp", weights),
                    weights.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            Tensor attended = attention.forward(ops, inputNorm.apply(ops, hiddenStates), batch, cache);
            Ops.Residual h = postAttentionNorm.add(ops, hiddenStates, attended);
            return ops.add(h.stream(), mlp.forward(ops, h.norm()));
        }
    }

    /** Queries straight from the input, or through a narrow middle with a norm. */
    private record LowRankQuery(Projection qAProj, Norm qANorm, Projection qBProj) {
        Tensor apply(Ops ops, Tensor x) {
            return qBProj.apply(ops, qANorm.apply(ops, qAProj.apply(ops, x)));
        }
    }

    private record Attention(
            Config config,
            int layer,
            BiFunction<Ops, Tensor, Tensor> qProj,
            Projection kvAProj,
            Norm kvANorm,
            Projection kvBProj,
            Projection oProj,
            RotaryEmbedding rotary) {
        private static final float LATENT_NORM_EPS = 1e-6f;

        static Attention load(Config config, RotaryEmbedding rotary, int layer, String path, WeightLoader weights) {
            int hiddenSize = config.hiddenSize();
            int qDim = config.heads() * (config.nopeDim() + config.ropeDim());
            return new Attention(
                    config,
                    layer,
                    config.qLoraRank() == 0
                            ? weights.projection(path + ".q_proj", hiddenSize, qDim, false)::apply
                            : query(config, path, weights)::apply,
                    weights.projection(
                            path + ".kv_a_proj_with_mqa",
                            hiddenSize,
                            config.kvLoraRank() + config.ropeDim(),
                            config.bias()),
                    Norm.load(weights, path + ".kv_a_layernorm", config.kvLoraRank(), LATENT_NORM_EPS),
                    weights.projection(
                            path + ".kv_b_proj",
                            config.kvLoraRank(),
                            config.heads() * (config.nopeDim() + config.vHeadDim()),
                            false),
                    weights.projection(path + ".o_proj", config.heads() * config.vHeadDim(), hiddenSize, config.bias()),
                    rotary);
        }

        private static LowRankQuery query(Config config, String path, WeightLoader weights) {
            return new LowRankQuery(
                    weights.projection(path + ".q_a_proj", config.hiddenSize(), config.qLoraRank(), config.bias()),
                    Norm.load(weights, path + ".q_a_layernorm", config.qLoraRank(), LATENT_NORM_EPS),
                    weights.projection(
                            path + ".q_b_proj",
                            config.qLoraRank(),
                            config.heads() * (config.nopeDim() + config.ropeDim()),
                            false));
        }

        Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            Tensor q = ops.splitHeads(qProj.apply(ops, hiddenStates), config.heads());
            Tensor qNope = ops.columns(q, 0, config.nopeDim());
            Tensor qRope = rotate(ops, ops.columns(q, config.nopeDim(), config.nopeDim() + config.ropeDim()), batch);
            Tensor compressedKv = kvAProj.apply(ops, hiddenStates);
            Tensor latent = kvANorm.apply(ops, ops.columns(compressedKv, 0, config.kvLoraRank()));
            Tensor kRope = ops.columns(compressedKv, config.kvLoraRank(), config.kvLoraRank() + config.ropeDim());
            kRope = rotate(ops, ops.splitHeads(kRope, 1), batch);
            Tensor attended = cache.latent()
                    ? absorbed(ops, qNope, qRope, latent, kRope, batch, cache)
                    : expanded(ops, qNope, qRope, latent, kRope, batch, cache);
            return oProj.apply(ops, ops.joinHeads(attended));
        }

        /** The files keep pairs side by side; scores do not care about the order that queries and keys share. */
        private Tensor rotate(Ops ops, Tensor x, Batch batch) {
            long rows = x.dim(0) * x.dim(1);
            Tensor pairs = ops.reshape(x, Shape.of(rows, config.ropeDim() / 2, 2));
            Tensor split = ops.permute(pairs, 0, 2, 1);
            return rotary.rotate(ops, ops.reshape(split, x.shape()), batch);
        }

        /** Keys and values of every head; values are as wide as keys, the rest of them zero. */
        private Tensor expanded(
                Ops ops, Tensor qNope, Tensor qRope, Tensor latent, Tensor kRope, Batch batch, KvCache cache) {
            long d = config.nopeDim() + config.ropeDim();
            Tensor kv = ops.splitHeads(kvBProj.apply(ops, latent), config.heads());
            Tensor v = ops.pad(ops.columns(kv, config.nopeDim(), config.nopeDim() + config.vHeadDim()), 0, d);
            Tensor spread = ops.add(
                    ops.run(new Plain.Fill(
                            new Spec(kRope.dtype(), Shape.of(config.heads(), kRope.dim(0), config.ropeDim())), 0)),
                    ops.reshape(kRope, Shape.of(kRope.dim(0), config.ropeDim())));
            Tensor k = join(ops, ops.columns(kv, 0, config.nopeDim()), ops.permute(spread, 1, 0, 2));
            KvCache.Kv cached = cache.append(ops, layer, k, v, batch);
            Tensor y = cached.attend(ops, join(ops, qNope, qRope), batch, config.softmaxScale(), 0);
            return ops.columns(y, 0, config.vHeadDim());
        }

        /** One key head: the latent and the rotated key. Its values are the latents themselves. */
        private Tensor absorbed(
                Ops ops, Tensor qNope, Tensor qRope, Tensor latent, Tensor kRope, Batch batch, KvCache cache) {
            Shape perHead = Shape.of(config.heads(), config.nopeDim() + config.vHeadDim(), config.kvLoraRank());
            Tensor weight = ops.reshape(kvBProj.weight(ops), perHead);
            Tensor parts = ops.permute(weight, 1, 0, 2);
            Tensor kWeight = ops.permute(ops.run(new Plain.Slice(0, config.nopeDim()), parts), 1, 0, 2);
            Tensor vWeight = ops.permute(
                    ops.run(new Plain.Slice(config.nopeDim(), config.nopeDim() + config.vHeadDim()), parts), 1, 0, 2);
            Tensor q = ops.run(new Plain.MatMul(false, false, qNope.dtype()), ops.permute(qNope, 1, 0, 2), kWeight);
            q = join(ops, ops.permute(q, 1, 0, 2), qRope);
            Tensor row = join(ops, ops.splitHeads(latent, 1), kRope);
            KvCache.Kv cached = cache.append(ops, layer, row, row, batch);
            Tensor y = ops.columns(cached.attend(ops, q, batch, config.softmaxScale(), 0), 0, config.kvLoraRank());
            y = ops.run(new Plain.MatMul(false, true, y.dtype()), ops.permute(y, 1, 0, 2), vWeight);
            return ops.permute(y, 1, 0, 2);
        }

        /** Columns of a, then columns of b. */
        private static Tensor join(Ops ops, Tensor a, Tensor b) {
            long width = a.dim(2) + b.dim(2);
            return ops.add(ops.pad(a, 0, width), ops.pad(b, a.dim(2), width));
        }
    }

    /** The feed-forward part of a block: one dense MLP, or a mixture of experts. */
    private interface FeedForward {
        Tensor forward(Ops ops, Tensor hiddenStates);
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

    private record Moe(Config config, Projection router, Tensor correctionBias, ExpertStack experts, Mlp sharedExperts)
            implements FeedForward {
        private static final int EXPERTS_IN_GROUP_SCORE = 2;

        static Moe load(Config config, String path, WeightLoader weights) {
            return new Moe(
                    config,
                    weights.projection(path + ".gate", config.hiddenSize(), config.experts(), false),
                    weights.vector(path + ".gate.e_score_correction_bias", config.experts()),
                    weights.experts(
                            path + ".experts",
                            config.experts(),
                            config.hiddenSize(),
                            config.moeIntermediateSize(),
                            "gate_proj",
                            "up_proj",
                            "down_proj"),
                    Mlp.load(config.hiddenSize(), config.sharedIntermediateSize(), path + ".shared_experts", weights));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates) {
            Tensor scores = ops.map(Fn.SIGMOID, router.logits(ops, hiddenStates));
            Routing.Route route = new Routing.Route(
                    config.expertsPerToken(), config.expertGroups(), config.topkGroups(), EXPERTS_IN_GROUP_SCORE);
            Tensor topExperts = ops.run(route, ops.add(scores, correctionBias));
            Tensor topWeights = ops.run(new Plain.Pick(), scores, topExperts);
            topWeights = config.normTopkProb() ? ExpertStack.normalizeWeights(ops, topWeights, 1e-20f) : topWeights;
            Tensor routed =
                    experts.forward(ops, hiddenStates, topExperts, ops.scale(topWeights, config.routedScalingFactor()));
            return ops.add(routed, sharedExperts.forward(ops, hiddenStates));
        }
    }
}
