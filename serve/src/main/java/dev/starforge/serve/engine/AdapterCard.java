package dev.starforge.serve.engine;

import java.time.Instant;

/** A LoRA adapter that requests can name. */
public record AdapterCard(String name, Instant loaded) {}
