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
 * Phi-1, 1.5 and 2 (Gunasekar et al. 2023): one LayerNorm for attention and MLP, which run side by side, rope on part of
 * each head, biases everywhere, the head included.
 */
public final class Phi implements Model {
    static final Architecture ARCHITECTURE =
            new Architecture("phi", "PhiForCausalLM", Phi::new, "q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2");

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
            int rotaryDims,
            float normEps) {
        static Config of(JsonConfig json) {
            if (!json.string("hidden_act", "gelu_new").equals("gelu_new")) {
                throw json.invalid("hidden_act", "gelu_new");
            }
            if (json.bool("qk_layernorm", false)) {
                throw json.invalid("qk_layernorm", "false, since norms on heads are not supported");
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
                    hiddenSize / heads,
                    (int) (hiddenSize / heads * RotaryEmbedding.partialRotaryFactor(json)),
                    (float) json.number("layer_norm_eps", 1e-5));
        }
    }

    Phi(JsonConfig json, WeightLoader weights) {
        config = Config.of(json);
        int hiddenSize = config.hiddenSize();
        embedTokens = weights.matrix("model.embed_tokens.weight", config.vocabSize(), hiddenSize);
        rotary = RotaryEmbedding.load(json, config.rotaryDims(), weights);
        for (int layer = 0; layer < config.layers(); layer++) {
            blocks.add(Block.load(config, rotary, layer, weights));
        }
        norm = Norm.load(weights, "model.final_layernorm", config);
        lmHead = weights.projection("lm_head", hiddenSize, config.vocabSize(), true);
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

    private record Norm(Tensor weight, Tensor bias, float eps) {
        static Norm load(WeightLoader weights, String path, Config config) {
            return new Norm(
                    weights.vector(path + ".weight", config.hiddenSize()),
                    weights.vector(path + ".bias", config.hiddenSize()),
                    config.normEps());
        }

        Tensor apply(Ops ops, Tensor x) {
            return ops.layerNorm(x, weight, bias, eps);
        }
    }

    private record Block(Norm inputNorm, Attention attention, Mlp mlp, List<Parameter> matrices)
            implements Model.Block {
        static Block load(Config config, RotaryEmbedding rotary, int layer, WeightLoader weights) {
            String path = "model.layers." + layer;
            return new Block(
                    Norm.load(weights, path + ".input_layernorm", config),
                    Attention.load(config, rotary, layer, path + ".self_attn", weights),
                    Mlp.load(config, path + ".mlp", weights),
                    weights.matrices(path));
        }

        @Override
        public Tensor forward(Ops ops, Tensor hiddenStates, Batch batch, KvCache cache) {
            Tensor h = inputNorm.apply(ops, hiddenStates);
            return ops.add(hiddenStates, mlp.addTo(ops, attention.forward(ops, h, batch, cache), h));
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
                    weights.projection(path + ".dense", qDim, hiddenSize, true),
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
            Tensor attended = kv.attend(ops, q, batch, scale, 0);
            return oProj.apply(ops, ops.joinHeads(attended));
        }
    }

    private record Mlp(Projection fc1, Projection fc2) {
        static Mlp load(Config config, String path, WeightLoader weights) {
            return new Mlp(
                    weights.projection(path + ".fc1", config.hiddenSize(), config.intermediateSize(), true),
                    weights.projection(path + ".fc2", config.intermediateSize(), config.hiddenSize(), true));
        }

        Tensor addTo(Ops ops, Tensor residual, Tensor hiddenStates) {
            return fc2.addTo(ops, residual, fc1.activate(ops, Fn.GELU_TANH, hiddenStates));
        }
    }
}
