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
 * Phi-1, 1.5 and 2 (Gunasekar et al. 2023): one LayerNorm for attention and MLP, which run side by side, rope on part of
 * each head, biases everywhere, the head included.
 */
public final class Phi implements Model {
    static final Architecture ARCHITECTURE =
            new Architecture("phi", "PhiForCausalLM", Phi::new, "q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2");

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
            int rotaryDims,
            float eps) {
        static Settings of(Config config) {
            if (!config.text("hidden_act", "gelu_new").equals("gelu_new")) {
                throw config.wrong("hidden_act", "gelu_new");
            }
            if (config.flag("qk_layernorm", false)) {
                throw config.wrong("qk_layernorm", "false, since norms on heads are not supported");
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
                    (int) (width / heads * Rotary.share(config)),
                    (float) config.number("layer_norm_eps", 1e-5));
        }
    }

    Phi(Config config, Weights w) {
        settings = Settings.of(config);
        int c = settings.width();
        embedding = w.matrix("model.embed_tokens.weight", settings.vocabulary(), c);
        rotary = Rotary.load(config, settings.rotaryDims(), w);
        for (int layer = 0; layer < settings.layers(); layer++) {
            blocks.add(Block.load(settings, rotary, layer, w));
        }
        norm = Norm.load(w, "model.final_layernorm", settings);
        head = w.projection("lm_head", c, settings.vocabulary(), true);
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

    private record Norm(Tensor weight, Tensor bias, float eps) {
        static Norm load(Weights w, String path, Settings settings) {
            return new Norm(
                    w.vector(path + ".weight", settings.width()),
                    w.vector(path + ".bias", settings.width()),
                    settings.eps());
        }

        Tensor apply(Ops ops, Tensor x) {
            return ops.layerNorm(x, weight, bias, eps);
        }
    }

    private record Block(Norm norm, Attention attention, Mlp mlp, List<Parameter> matrices) implements Model.Block {
        static Block load(Settings settings, Rotary rotary, int layer, Weights w) {
            String path = "model.layers." + layer;
            return new Block(
                    Norm.load(w, path + ".input_layernorm", settings),
                    Attention.load(settings, rotary, layer, path + ".self_attn", w),
                    Mlp.load(settings, path + ".mlp", w),
                    w.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache) {
            Tensor h = norm.apply(ops, x);
            return ops.add(x, mlp.addTo(ops, attention.forward(ops, h, batch, cache), h));
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
                    w.projection(path + ".dense", q, c, true),
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

    private record Mlp(Projection up, Projection down) {
        static Mlp load(Settings s, String path, Weights w) {
            return new Mlp(
                    w.projection(path + ".fc1", s.width(), s.inner(), true),
                    w.projection(path + ".fc2", s.inner(), s.width(), true));
        }

        Tensor addTo(Ops ops, Tensor residual, Tensor x) {
            return down.addTo(ops, residual, up.activate(ops, Fn.GELU_TANH, x));
        }
    }
}
