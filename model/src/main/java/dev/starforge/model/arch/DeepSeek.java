package dev.starforge.model.arch;

import dev.starforge.model.Config;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.layer.ExpertStack;
import dev.starforge.model.layer.Projection;
import dev.starforge.model.layer.Rotary;
import dev.starforge.model.layer.Weights;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.ArrayList;
import java.util.List;

/**
 * DeepSeekMoE (Dai et al. 2024), the first one: Llama's attention, and after the first dense layers many small experts beside
 * shared ones that every token takes. Its successors keep the experts and change the attention.
 */
public final class DeepSeek implements Model {
    /** Adapters update attention alone by default, as those of {@link DeepSeekV2} do. */
    static final Architecture ARCHITECTURE =
            new Architecture("deepseek", "DeepseekForCausalLM", DeepSeek::new, "q_proj", "k_proj", "v_proj", "o_proj");

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
            int kvHeads,
            int headDim,
            int dense,
            int experts,
            int chosen,
            int expertInner,
            int sharedInner,
            boolean normalized,
            float eps,
            boolean bias,
            boolean tied) {
        static Settings of(Config config) {
            if (!config.text("hidden_act", "silu").equals("silu")) {
                throw config.wrong("hidden_act", "silu");
            }
            if (config.size("moe_layer_freq", 1) != 1) {
                throw config.wrong("moe_layer_freq", "1, since other steps are not supported");
            }
            if (!config.text("scoring_func", "softmax").equals("softmax")) {
                throw config.wrong("scoring_func", "softmax");
            }
            int width = config.size("hidden_size");
            int heads = config.size("num_attention_heads");
            return new Settings(
                    config.size("vocab_size"),
                    Rotary.context(config),
                    width,
                    config.size("intermediate_size"),
                    config.size("num_hidden_layers"),
                    heads,
                    config.size("num_key_value_heads", heads),
                    width / heads,
                    config.integer("first_k_dense_replace", 0),
                    config.size("n_routed_experts"),
                    config.size("num_experts_per_tok"),
                    config.size("moe_intermediate_size"),
                    config.size("moe_intermediate_size") * config.size("n_shared_experts"),
                    config.flag("norm_topk_prob", false),
                    (float) config.number("rms_norm_eps", 1e-6),
                    config.flag("attention_bias", false),
                    config.flag("tie_word_embeddings", false));
        }
    }

    DeepSeek(Config config, Weights w) {
        settings = Settings.of(config);
        int c = settings.width();
        embedding = w.matrix("model.embed_tokens.weight", settings.vocabulary(), c);
        rotary = Rotary.load(config, settings.headDim(), w);
        for (int layer = 0; layer < settings.layers(); layer++) {
            blocks.add(Block.load(settings, rotary, layer, w));
        }
        norm = Norm.load(w, "model.norm", settings);
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
        return Facts.of(
                settings.vocabulary(), settings.context(), settings.layers(), settings.kvHeads(), settings.headDim());
    }

    private record Norm(Tensor weight, float eps) {
        static Norm load(Weights w, String path, Settings settings) {
            return new Norm(w.vector(path + ".weight", settings.width()), settings.eps());
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
                    Norm.load(w, path + ".input_layernorm", s),
                    Attention.load(s, rotary, layer, path + ".self_attn", w),
                    Norm.load(w, path + ".post_attention_layernorm", s),
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

    private record Attention(
            Settings settings,
            int layer,
            Projection query,
            Projection key,
            Projection value,
            Projection output,
            Rotary rotary) {
        static Attention load(Settings s, Rotary rotary, int layer, String path, Weights w) {
            int c = s.width();
            int q = s.heads() * s.headDim();
            int kv = s.kvHeads() * s.headDim();
            return new Attention(
                    s,
                    layer,
                    w.projection(path + ".q_proj", c, q, s.bias()),
                    w.projection(path + ".k_proj", c, kv, s.bias()),
                    w.projection(path + ".v_proj", c, kv, s.bias()),
                    w.projection(path + ".o_proj", q, c, s.bias()),
                    rotary);
        }

        Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache) {
            List<Tensor> qkv = Projection.all(ops, x, query, key, value);
            Tensor q = ops.splitHeads(qkv.get(0), settings.heads());
            Tensor k = ops.splitHeads(qkv.get(1), settings.kvHeads());
            Tensor v = ops.splitHeads(qkv.get(2), settings.kvHeads());
            q = rotary.rotate(ops, q, batch);
            k = rotary.rotate(ops, k, batch);
            KvCache.Kv kv = cache.append(ops, layer, k, v, batch);
            float scale = (float) (1 / Math.sqrt(settings.headDim()));
            Tensor y = kv.attend(ops, q, batch, scale, 0);
            return output.apply(ops, ops.joinHeads(y));
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

    private record Moe(Settings s, Projection router, ExpertStack experts, Mlp shared) implements Feed {
        static Moe load(Settings s, String path, Weights w) {
            return new Moe(
                    s,
                    w.projection(path + ".gate", s.width(), s.experts(), false),
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
            Tensor scores = ops.run(new Plain.Softmax(), router.logits(ops, x));
            Tensor best = ops.run(new Routing.Route(s.chosen(), 1, 1, 1), scores);
            Tensor shares = ops.run(new Plain.Pick(), scores, best);
            shares = s.normalized() ? ExpertStack.normalized(ops, shares, 1e-20f) : shares;
            return ops.add(experts.forward(ops, x, best, shares), shared.forward(ops, x));
        }
    }
}
