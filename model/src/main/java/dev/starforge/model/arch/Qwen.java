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
 * Qwen, the first one (Bai et al. 2023): Llama with one biased projection for queries, keys and values, other names, and an
 * MLP whose width the config counts twice. Its two tricks for long texts change results only beyond the training length,
 * which is the context here, so they have no say.
 */
public final class Qwen implements Model {
    /** Its class is code beside the weights, not part of HF transformers. */
    static final Architecture ARCHITECTURE =
            new Architecture("qwen", Architecture.NO_HF_CLASS, Qwen::new, "c_attn", "c_proj", "w1", "w2");

    private final Settings settings;
    private final Rotary rotary;
    private final Tensor embedding;
    private final List<Model.Block> blocks = new ArrayList<>();
    private final Norm norm;
    private final Projection head;

    record Settings(int vocabulary, int context, int width, int inner, int layers, int heads, int headDim, float eps) {
        static Settings of(Config config) {
            int width = config.size("hidden_size");
            int heads = config.size("num_attention_heads");
            return new Settings(
                    config.size("vocab_size"),
                    config.size("seq_length", config.size("max_position_embeddings", 8192)),
                    width,
                    config.size("intermediate_size") / 2,
                    config.size("num_hidden_layers"),
                    heads,
                    config.size("kv_channels", width / heads),
                    (float) config.number("layer_norm_epsilon", 1e-6));
        }
    }

    Qwen(Config config, Weights w) {
        settings = Settings.of(config);
        int c = settings.width();
        embedding = w.matrix("transformer.wte.weight", settings.vocabulary(), c);
        rotary = Rotary.load(config, settings.headDim(), w);
        for (int layer = 0; layer < settings.layers(); layer++) {
            blocks.add(Block.load(settings, rotary, layer, w));
        }
        norm = Norm.load(w, "transformer.ln_f", settings);
        head = w.projection("lm_head", c, settings.vocabulary(), false);
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
                settings.vocabulary(), settings.context(), settings.layers(), settings.heads(), settings.headDim());
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
            String path = "transformer.h." + layer;
            return new Block(
                    Norm.load(w, path + ".ln_1", settings),
                    Attention.load(settings, rotary, layer, path + ".attn", w),
                    Norm.load(w, path + ".ln_2", settings),
                    Mlp.load(settings, path + ".mlp", w),
                    w.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache) {
            Tensor y = attention.forward(ops, before.apply(ops, x), batch, cache);
            return mlp.addTo(ops, between.add(ops, x, y));
        }
    }

    private record Attention(Settings settings, int layer, Projection input, Projection output, Rotary rotary) {
        static Attention load(Settings s, Rotary rotary, int layer, String path, Weights w) {
            int q = s.heads() * s.headDim();
            return new Attention(
                    s,
                    layer,
                    w.projection(path + ".c_attn", s.width(), 3 * q, true),
                    w.projection(path + ".c_proj", q, s.width(), false),
                    rotary);
        }

        Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache) {
            int width = settings.heads() * settings.headDim();
            Tensor all = input.apply(ops, x);
            Tensor q = ops.splitHeads(ops.columns(all, 0, width), settings.heads());
            Tensor k = ops.splitHeads(ops.columns(all, width, 2 * width), settings.heads());
            Tensor v = ops.splitHeads(ops.columns(all, 2 * width, 3 * width), settings.heads());
            q = rotary.rotate(ops, q, batch);
            k = rotary.rotate(ops, k, batch);
            KvCache.Kv kv = cache.append(ops, layer, k, v, batch);
            float scale = (float) (1 / Math.sqrt(settings.headDim()));
            return output.apply(ops, ops.joinHeads(kv.attend(ops, q, batch, scale, 0)));
        }
    }

    /** down(up(x) * silu(gate(x))), where the files call up w1 and gate w2. */
    private record Mlp(Projection gate, Projection up, Projection down) {
        static Mlp load(Settings s, String path, Weights w) {
            return new Mlp(
                    w.projection(path + ".w2", s.width(), s.inner(), false),
                    w.projection(path + ".w1", s.width(), s.inner(), false),
                    w.projection(path + ".c_proj", s.inner(), s.width(), false));
        }

        Tensor addTo(Ops ops, Ops.Residual h) {
            List<Tensor> gateUp = Projection.all(ops, h.norm(), gate, up);
            return down.addTo(ops, h.stream(), ops.gated(Fn.SILU, gateUp.get(0), gateUp.get(1)));
        }
    }
}
