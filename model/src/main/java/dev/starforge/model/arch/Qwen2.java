package dev.starforge.model.arch;

import dev.starforge.model.Config;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.layer.Projection;
import dev.starforge.model.layer.Rotary;
import dev.starforge.model.layer.Weights;
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
            int window,
            int windowFrom,
            float eps,
            boolean tied) {
        static Settings of(Config config) {
            if (!config.text("hidden_act", "silu").equals("silu")) {
                throw config.wrong("hidden_act", "silu");
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
                    config.size("head_dim", width / heads),
                    config.flag("use_sliding_window", false) ? config.window() : 0,
                    config.integer("max_window_layers", 28),
                    (float) config.number("rms_norm_eps", 1e-6),
                    config.flag("tie_word_embeddings", false));
        }
    }

    Qwen2(Config config, Weights w) {
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

    private record Block(Norm before, Attention attention, Norm between, Mlp mlp, List<Parameter> matrices)
            implements Model.Block {
        static Block load(Settings settings, Rotary rotary, int layer, Weights w) {
            String path = "model.layers." + layer;
            return new Block(
                    Norm.load(w, path + ".input_layernorm", settings),
                    Attention.load(settings, rotary, layer, path + ".self_attn", w),
                    Norm.load(w, path + ".post_attention_layernorm", settings),
                    Mlp.load(settings, path + ".mlp", w),
                    w.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache) {
            Tensor y = attention.forward(ops, before.apply(ops, x), batch, cache);
            return mlp.addTo(ops, between.add(ops, x, y));
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
                    w.projection(path + ".q_proj", c, q, true),
                    w.projection(path + ".k_proj", c, kv, true),
                    w.projection(path + ".v_proj", c, kv, true),
                    w.projection(path + ".o_proj", q, c, false),
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
            int window = layer >= settings.windowFrom() ? settings.window() : 0;
            Tensor y = kv.attend(ops, q, batch, scale, window);
            return output.apply(ops, ops.joinHeads(y));
        }
    }

    private record Mlp(Projection gate, Projection up, Projection down) {
        static Mlp load(Settings s, String path, Weights w) {
            return new Mlp(
                    w.projection(path + ".gate_proj", s.width(), s.inner(), false),
                    w.projection(path + ".up_proj", s.width(), s.inner(), false),
                    w.projection(path + ".down_proj", s.inner(), s.width(), false));
        }

        Tensor addTo(Ops ops, Ops.Residual h) {
            List<Tensor> gateUp = Projection.all(ops, h.norm(), gate, up);
            return down.addTo(ops, h.stream(), ops.gated(Fn.SILU, gateUp.get(0), gateUp.get(1)));
        }
    }
}
