/**
 * The one public package of Starforge. A program that embeds it opens a device, and loads, trains and merges models on it:
 *
 * {@snippet :
 * try (Starforge starforge = Starforge.open("auto", Path.of("cache"));
 *         CodeModel model = starforge.load(Path.of("tuned.gguf"))) {
 *     System.out.println(model.complete("def fibonacci(n):", Generation.greedy(64)).text());
 * }
 * }
 *
 * <p>What the program says of itself holds here, too: the same files, the same settings, the same text for the same seed. The
 * library reads no environment variable and no system property, and writes to no standard stream. Everything that can go wrong
 * for a foreseen reason is a {@link dev.starforge.api.StarforgeException} whose message says what to do.
 */
package dev.starforge.api;
