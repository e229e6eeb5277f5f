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
 * Qwen, the first one (Bai et al. 2023): Llama with one biased projection for queries, keys and values, other names, and an
 * MLP whose width the config counts twice. Its two tricks for long texts change results only beyond the training length,
 * which is the context here, so they have no say.
 */
public final class Qwen implements Model {
    /** Its class is code beside the weights, not part of HF transformers. */
    static final Architecture ARCHITECTURE =
            new Architecture("qwen", Architecture.NO_HF_CLASS, Qwen::new, "c_attn", "c_proj", "w1", "w2");

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
            int headDim,
            float normEps) {
        static Config of(JsonConfig json) {
            int hiddenSize = json.size("hidden_size");
            int heads = json.size("num_attention_heads");
            return new Config(
                    json.size("vocab_size"),
                    json.size("seq_length", json.size("max_position_embeddings", 8192)),
                    hiddenSize,
                    json.size("intermediate_size") / 2,
                    json.size("num_hidden_layers"),
                    heads,
                    json.size("kv_channels", hiddenSize / heads),
                    (float) json.number("layer_norm_epsilon", 1e-6));
        }
    }

    Qwen(JsonConfig json, WeightLoader weights) {
        config = Config.of(json);
        int hiddenSize = config.hiddenSize();
        embedTokens = weights.matrix("transformer.wte.weight", config.vocabSize(), hiddenSize);
        rotary = RotaryEmbedding.load(json, config.headDim(), weights);
        for (int layer = 0; layer < config.layers(); layer++) {
            blocks.add(Block.load(config, rotary, layer, weights));
        }
        norm = Norm.load(weights, "transformer.ln_f", config);
        lmHead = weights.projection("lm_head", hiddenSize, config.vocabSize(), false);
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
                config.vocabSize(), config.contextLength(), config.layers(), config.heads(), config.headDim());
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
            String path = "transformer.h." + layer;
            return new Block(
                    Norm.load(weights, path + ".ln_1", config),
                    Attention.load(config, rotary, layer, path + ".attn", weights),
                    Norm.load(weights, path + ".ln_2", config),
                    Mlp.load(config, path + ".mlp", weights),
                    weights.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            Tensor attended = attention.forward(ops, inputNorm.apply(ops, hiddenStates), batch, cache);
            return mlp.addTo(ops, postAttentionNorm.add(ops, hiddenStates, attended));
        }
    }

    private record Attention(Config config, int layer, Projection qkvProj, Projection oProj, RotaryEmbedding rotary) {
        static Attention load(Config config, RotaryEmbedding rotary, int layer, String path, WeightLoader weights) {
            int attentionDim = config.heads() * config.headDim();
            return new Attention(
                    config,
                    layer,
                    weights.projection(path + ".c_attn", config.hiddenSize(), 3 * attentionDim, true),
                    weights.projection(path + ".c_proj", attentionDim, config.hiddenSize(), false),
                    rotary);
        }

        Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            int attentionDim = config.heads() * config.headDim();
            Tensor qkv = qkvProj.apply(ops, hiddenStates);
            Tensor q = ops.splitHeads(ops.columns(qkv, 0, attentionDim), config.heads());
            Tensor k = ops.splitHeads(ops.columns(qkv, attentionDim, 2 * attentionDim), config.heads());
            Tensor v = ops.splitHeads(ops.columns(qkv, 2 * attentionDim, 3 * attentionDim), config.heads());
            q = rotary.rotate(ops, q, batch);
            k = rotary.rotate(ops, k, batch);
            KvCache.Kv kv = cache.append(ops, layer, k, v, batch);
            float scale = (float) (1 / Math.sqrt(config.headDim()));
            return oProj.apply(ops, ops.joinHeads(kv.attend(ops, q, batch, scale, 0)));
        }
    }

    /** down(up(x) * silu(gate(x))), where the files call up w1 and gate w2. */
    private record Mlp(Projection gateProj, Projection upProj, Projection downProj) {
        static Mlp load(Config config, String path, WeightLoader weights) {
            return new Mlp(
                    weights.projection(path + ".w2", config.hiddenSize(), config.intermediateSize(), false),
                    weights.projection(path + ".w1", config.hiddenSize(), config.intermediateSize(), false),
                    weights.projection(path + ".c_proj", config.intermediateSize(), config.hiddenSize(), false));
        }

        Tensor addTo(Ops ops, Ops.Residual h) {
            List<Tensor> gateUp = Projection.applyAll(ops, h.norm(), gateProj, upProj);
            return downProj.addTo(ops, h.stream(), ops.gated(Fn.SILU, gateUp.get(0), gateUp.get(1)));
        }
    }
}
