/**
 * The public API of Starforge. A program opens a device, then loads, trains and merges models on it:
 *
 * {@snippet :
 * try (Starforge starforge = Starforge.open("auto", Path.of("cache"));
 *         CodeModel model = starforge.load(Path.of("tuned.gguf"))) {
 *     System.out.println(model.complete("def fibonacci(n):", GenerationConfig.greedy(64)).text());
 * }
 * }
 *
 * <p>Files, config keys and generated text are the same as on the command line. The library reads no environment variables and no
 * system properties and does not write to standard output. Expected failures are {@link dev.starforge.api.StarforgeException}s,
 * whose message states what was expected.
 */
package dev.starforge.api;
