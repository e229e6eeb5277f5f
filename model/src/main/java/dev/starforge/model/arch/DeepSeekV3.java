package dev.starforge.model.arch;

import dev.starforge.model.Config;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.layer.ExpertStack;
import dev.starforge.model.layer.Projection;
import dev.starforge.model.layer.Rotary;
import dev.starforge.model.layer.Weights;
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

    private final Settings settings;
    private final Rotary rotary;
    private final Tensor embedding;
    private final List<Model.Block> blocks = new ArrayList<>();
    private final Norm norm;
    private final Projection head;

    record Settings(
            int vocabulary,
            int context,
            int width,
            int inner,
            int layers,
            int heads,
            int queryRank,
            int latent,
            int nopeDim,
            int ropeDim,
            int value,
            float scale,
            int dense,
            int experts,
            int chosen,
            int groups,
            int keptGroups,
            int expertInner,
            int sharedInner,
            boolean normalized,
            float routedScale,
            float eps,
            boolean bias,
            boolean tied) {
        static Settings of(Config config) {
            if (!config.text("hidden_act", "silu").equals("silu")) {
                throw config.wrong("hidden_act", "silu");
            }
            if (!config.text("scoring_func", "sigmoid").equals("sigmoid")) {
                throw config.wrong("scoring_func", "sigmoid");
            }
            if (!config.flag("rope_interleave", true)) {
                throw config.wrong("rope_interleave", "true, since the other order is not supported");
            }
            if (config.size("moe_layer_freq", 1) != 1) {
                throw config.wrong("moe_layer_freq", "1, since other steps are not supported");
            }
            int nopeDim = config.size("qk_nope_head_dim");
            int ropeDim = config.size("qk_rope_head_dim");
            return new Settings(
                    config.size("vocab_size"),
                    Rotary.context(config),
                    config.size("hidden_size"),
                    config.size("intermediate_size"),
                    config.size("num_hidden_layers"),
                    config.size("num_attention_heads"),
                    config.size("q_lora_rank", 0),
                    config.size("kv_lora_rank"),
                    nopeDim,
                    ropeDim,
                    config.size("v_head_dim"),
                    (float) (Rotary.sharpening(config) / Math.sqrt(nopeDim + ropeDim)),
                    config.integer("first_k_dense_replace", 3),
                    config.size("n_routed_experts"),
                    config.size("num_experts_per_tok"),
                    config.size("n_group", 1),
                    config.size("topk_group", 1),
                    config.size("moe_intermediate_size"),
                    config.size("moe_intermediate_size") * config.size("n_shared_experts"),
                    config.flag("norm_topk_prob", true),
                    (float) config.number("routed_scaling_factor", 2.5),
                    (float) config.number("rms_norm_eps", 1e-6),
                    config.flag("attention_bias", false),
                    config.flag("tie_word_embeddings", false));
        }
    }

    DeepSeekV3(Config config, Weights w) {
        settings = Settings.of(config);
        int c = settings.width();
        embedding = w.matrix("model.embed_tokens.weight", settings.vocabulary(), c);
        rotary = Rotary.load(config, settings.ropeDim(), w);
        for (int layer = 0; layer < settings.layers(); layer++) {
            blocks.add(Block.load(settings, rotary, layer, w));
        }
        norm = Norm.load(w, "model.norm", c, settings.eps());
        head = settings.tied()
                ? new Projection.Linear(embedding)
                : w.projection("lm_head", c, settings.vocabulary(), false);
    }

    @Override
    public Tensor embed(Ops ops, Batch batch) {
        return ops.embed(embedding, batch.ids());
    }

    @Override
    public List<Model.Block> blocks() {
        return blocks;
    }

    @Override
    public Tensor normalize(Ops ops, Tensor x) {
        return norm.apply(ops, x);
    }

    @Override
    public Tensor logits(Ops ops, Tensor hidden) {
        return head.logits(ops, hidden);
    }

    @Override
    public int regime(int length) {
        return rotary.regime(length);
    }

    @Override
    public Facts facts() {
        int cached = settings.latent() + settings.ropeDim();
        return new Facts(settings.vocabulary(), settings.context(), settings.layers(), 1, cached, 0, true);
    }

    private record Norm(Tensor weight, float eps) {
        static Norm load(Weights w, String path, int size, float eps) {
            return new Norm(w.vector(path + ".weight", size), eps);
        }

        Tensor apply(Ops ops, Tensor x) {
            return ops.rmsNorm(x, weight, eps);
        }

        Ops.Residual add(Ops ops, Tensor x, Tensor y) {
            return ops.addRmsNorm(x, y, weight, eps);
        }
    }

    private record Block(Norm before, Attention attention, Norm between, Feed feed, List<Parameter> matrices)
            implements Model.Block {
        static Block load(Settings s, Rotary rotary, int layer, Weights w) {
            String path = "model.layers." + layer;
            return new Block(
                    Norm.load(w, path + ".input_layernorm", s.width(), s.eps()),
                    Attention.load(s, rotary, layer, path + ".self_attn", w),
                    Norm.load(w, path + ".post_attention_layernorm", s.width(), s.eps()),
                    layer < s.dense()
                            ? Mlp.load(s.width(), s.inner(), path + ".mlp", w)
                            : Moe.load(s, path + ".mlp", w),
                    w.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache) {
            Tensor y = attention.forward(ops, before.apply(ops, x), batch, cache);
            Ops.Residual h = between.add(ops, x, y);
            return ops.add(h.stream(), feed.forward(ops, h.norm()));
        }
    }

    /** Queries straight from the input, or through a narrow middle with a norm. */
    private record Query(Projection down, Norm norm, Projection up) {
        Tensor apply(Ops ops, Tensor x) {
            return up.apply(ops, norm.apply(ops, down.apply(ops, x)));
        }
    }

    private record Attention(
            Settings s,
            int layer,
            BiFunction<Ops, Tensor, Tensor> query,
            Projection down,
            Norm latentNorm,
            Projection up,
            Projection output,
            Rotary rotary) {
        private static final float INNER_EPS = 1e-6f;

        static Attention load(Settings s, Rotary rotary, int layer, String path, Weights w) {
            int c = s.width();
            int q = s.heads() * (s.nopeDim() + s.ropeDim());
            return new Attention(
                    s,
                    layer,
                    s.queryRank() == 0 ? w.projection(path + ".q_proj", c, q, false)::apply : query(s, path, w)::apply,
                    w.projection(path + ".kv_a_proj_with_mqa", c, s.latent() + s.ropeDim(), s.bias()),
                    Norm.load(w, path + ".kv_a_layernorm", s.latent(), INNER_EPS),
                    w.projection(path + ".kv_b_proj", s.latent(), s.heads() * (s.nopeDim() + s.value()), false),
                    w.projection(path + ".o_proj", s.heads() * s.value(), c, s.bias()),
                    rotary);
        }

        private static Query query(Settings s, String path, Weights w) {
            return new Query(
                    w.projection(path + ".q_a_proj", s.width(), s.queryRank(), s.bias()),
                    Norm.load(w, path + ".q_a_layernorm", s.queryRank(), INNER_EPS),
                    w.projection(path + ".q_b_proj", s.queryRank(), s.heads() * (s.nopeDim() + s.ropeDim()), false));
        }

        Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache) {
            Tensor q = ops.splitHeads(query.apply(ops, x), s.heads());
            Tensor qNope = ops.columns(q, 0, s.nopeDim());
            Tensor qRope = rotate(ops, ops.columns(q, s.nopeDim(), s.nopeDim() + s.ropeDim()), batch);
            Tensor both = down.apply(ops, x);
            Tensor latent = latentNorm.apply(ops, ops.columns(both, 0, s.latent()));
            Tensor key = ops.columns(both, s.latent(), s.latent() + s.ropeDim());
            key = rotate(ops, ops.splitHeads(key, 1), batch);
            Tensor y = cache.latent()
                    ? absorbed(ops, qNope, qRope, latent, key, batch, cache)
                    : expanded(ops, qNope, qRope, latent, key, batch, cache);
            return output.apply(ops, ops.joinHeads(y));
        }

        /** The files keep pairs side by side; scores do not care about the order that queries and keys share. */
        private Tensor rotate(Ops ops, Tensor x, Batch batch) {
            long rows = x.dim(0) * x.dim(1);
            Tensor pairs = ops.reshape(x, Shape.of(rows, s.ropeDim() / 2, 2));
            Tensor split = ops.permute(pairs, 0, 2, 1);
            return rotary.rotate(ops, ops.reshape(split, x.shape()), batch);
        }

        /** Keys and values of every head; values are as wide as keys, the rest of them zero. */
        private Tensor expanded(
                Ops ops, Tensor qNope, Tensor qRope, Tensor latent, Tensor key, Batch batch, KvCache cache) {
            long d = s.nopeDim() + s.ropeDim();
            Tensor kv = ops.splitHeads(up.apply(ops, latent), s.heads());
            Tensor value = ops.pad(ops.columns(kv, s.nopeDim(), s.nopeDim() + s.value()), 0, d);
            Tensor spread = ops.add(
                    ops.run(new Plain.Fill(new Spec(key.dtype(), Shape.of(s.heads(), key.dim(0), s.ropeDim())), 0)),
                    ops.reshape(key, Shape.of(key.dim(0), s.ropeDim())));
            Tensor keys = join(ops, ops.columns(kv, 0, s.nopeDim()), ops.permute(spread, 1, 0, 2));
            KvCache.Kv cached = cache.append(ops, layer, keys, value, batch);
            Tensor y = cached.attend(ops, join(ops, qNope, qRope), batch, s.scale(), 0);
            return ops.columns(y, 0, s.value());
        }

        /** One key head: the latent and the rotated key. Its values are the latents themselves. */
        private Tensor absorbed(
                Ops ops, Tensor qNope, Tensor qRope, Tensor latent, Tensor key, Batch batch, KvCache cache) {
            Shape perHead = Shape.of(s.heads(), s.nopeDim() + s.value(), s.latent());
            Tensor weight = ops.reshape(up.weight(ops), perHead);
            Tensor parts = ops.permute(weight, 1, 0, 2);
            Tensor toKeys = ops.permute(ops.run(new Plain.Slice(0, s.nopeDim()), parts), 1, 0, 2);
            Tensor toValues =
                    ops.permute(ops.run(new Plain.Slice(s.nopeDim(), s.nopeDim() + s.value()), parts), 1, 0, 2);
            Tensor q = ops.run(new Plain.MatMul(false, false, qNope.dtype()), ops.permute(qNope, 1, 0, 2), toKeys);
            q = join(ops, ops.permute(q, 1, 0, 2), qRope);
            Tensor row = join(ops, ops.splitHeads(latent, 1), key);
            KvCache.Kv cached = cache.append(ops, layer, row, row, batch);
            Tensor y = ops.columns(cached.attend(ops, q, batch, s.scale(), 0), 0, s.latent());
            y = ops.run(new Plain.MatMul(false, true, y.dtype()), ops.permute(y, 1, 0, 2), toValues);
            return ops.permute(y, 1, 0, 2);
        }

        /** Columns of a, then columns of b. */
        private static Tensor join(Ops ops, Tensor a, Tensor b) {
            long width = a.dim(2) + b.dim(2);
            return ops.add(ops.pad(a, 0, width), ops.pad(b, a.dim(2), width));
        }
    }

    /** What stands after attention: one MLP, or many of which each token takes a few. */
    private interface Feed {
        Tensor forward(Ops ops, Tensor x);
    }

    private record Mlp(Projection gate, Projection up, Projection down) implements Feed {
        static Mlp load(int width, int inner, String path, Weights w) {
            return new Mlp(
                    w.projection(path + ".gate_proj", width, inner, false),
                    w.projection(path + ".up_proj", width, inner, false),
                    w.projection(path + ".down_proj", inner, width, false));
        }

        @Override
        public Tensor forward(Ops ops, Tensor x) {
            List<Tensor> gateUp = Projection.all(ops, x, gate, up);
            return down.apply(ops, ops.gated(Fn.SILU, gateUp.get(0), gateUp.get(1)));
        }
    }

    private record Moe(Settings s, Projection router, Tensor bias, ExpertStack experts, Mlp shared) implements Feed {
        private static final int VOTES = 2;

        static Moe load(Settings s, String path, Weights w) {
            return new Moe(
                    s,
                    w.projection(path + ".gate", s.width(), s.experts(), false),
                    w.vector(path + ".gate.e_score_correction_bias", s.experts()),
                    w.experts(
                            path + ".experts",
                            s.experts(),
                            s.width(),
                            s.expertInner(),
                            "gate_proj",
                            "up_proj",
                            "down_proj"),
                    Mlp.load(s.width(), s.sharedInner(), path + ".shared_experts", w));
        }

        @Override
        public Tensor forward(Ops ops, Tensor x) {
            Tensor scores = ops.map(Fn.SIGMOID, router.logits(ops, x));
            Routing.Route route = new Routing.Route(s.chosen(), s.groups(), s.keptGroups(), VOTES);
            Tensor best = ops.run(route, ops.add(scores, bias));
            Tensor shares = ops.run(new Plain.Pick(), scores, best);
            shares = s.normalized() ? ExpertStack.normalized(ops, shares, 1e-20f) : shares;
            Tensor routed = experts.forward(ops, x, best, ops.scale(shares, s.routedScale()));
            return ops.add(routed, shared.forward(ops, x));
        }
    }
}
