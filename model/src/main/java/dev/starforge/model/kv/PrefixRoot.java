package dev.starforge.model.kv;

import dev.starforge.tensor.DType;

/**
 * Everything except tokens that cached keys and values depend on. Sequences share cached blocks only if their roots are equal,
 * so nothing is shared across adapters, rope regimes, KV types or tenants.
 *
 * @param adapter hash of the LoRA adapter's content; empty for no adapter. Not its name, which may be reloaded with other
 *     weights
 * @param regime the rope regime that the keys were rotated in
 * @param type the data type of keys and values
 * @param salt cache salt of the tenant; empty if all tenants share
 */
public record PrefixRoot(String adapter, int regime, DType type, String salt) implements PrefixIndex.PrefixParent {}
