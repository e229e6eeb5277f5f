package dev.starforge.serve.engine;

import java.time.Instant;

/** A loaded LoRA adapter. */
public record AdapterCard(String name, Instant loaded) {}
