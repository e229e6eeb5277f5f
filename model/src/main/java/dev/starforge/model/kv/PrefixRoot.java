package dev.starforge.model.kv;

import dev.starforge.tensor.DType;

/**
 * Everything but tokens that keys and values depend on, and who may share them. Two sequences share cached blocks only if
 * their roots are equal, so nothing passes between adapters, rope regimes, KV types or tenants.
 *
 * @param adapter hash of the adapter's content, not its name, which may be loaded again with other weights; empty for none
 * @param regime which of the model's rotary tables the keys were rotated with
 * @param type what keys and values are stored as
 * @param salt of the tenant; empty where all may share
 */
public record PrefixRoot(String adapter, int regime, DType type, String salt) implements PrefixIndex.PrefixParent {}
