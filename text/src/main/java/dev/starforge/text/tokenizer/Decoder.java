package dev.starforge.text.tokenizer;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.pretokenizer.ByteAlphabet;
import dev.starforge.text.pretokenizer.PatternBudget;
import dev.starforge.text.pretokenizer.Replacement;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Turns tokens back into text. Decoders are chained stages that receive one token at a time, so streaming and whole
 * decoding share one implementation.
 */
sealed interface Decoder {
    /** A stage for one output, not thread-safe. */
    interface Stage {
        /** Receives the next part of a token; {@code last} marks the token's last part. */
        void accept(String part, boolean last);

        /** Ends the output. */
        void finish();
    }

    Stage onto(Stage next, PatternBudget budget);

    /** Returns true if tokens are spelled in the byte alphabet. */
    default boolean spellsBytes() {
        return this instanceof Bytes
                || this instanceof Sequence(var stages) && stages.stream().anyMatch(Decoder::spellsBytes);
    }

    record Sequence(List<Decoder> stages) implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            Stage chain = next;
            for (Decoder stage : stages.reversed()) {
                chain = stage.onto(chain, budget);
            }
            return chain;
        }
    }

    /** The default without a decoder: tokens separated by spaces. */
    record Spaced() implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            return new Stage() {
                private boolean first = true;

                @Override
                public void accept(String part, boolean last) {
                    next.accept(first ? part : " " + part, last);
                    first = false;
                }

                @Override
                public void finish() {
                    next.finish();
                }
            };
        }
    }

    /** Converts the byte alphabet to bytes, and bytes to characters; other tokens stay as they are. */
    record Bytes() implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            return new WholeTokens() {
                private final Utf8 utf8 = new Utf8();
                private final StringBuilder out = new StringBuilder();

                @Override
                void token(String token) {
                    if (token.chars().allMatch(c -> ByteAlphabet.valueOf((char) c) >= 0)) {
                        token.chars().forEach(c -> utf8.put(ByteAlphabet.valueOf((char) c), out));
                    } else {
                        for (byte b : token.getBytes(StandardCharsets.UTF_8)) {
                            utf8.put(b & 0xFF, out);
                        }
                    }
                    next.accept(out.toString(), false);
                    out.setLength(0);
                }

                @Override
                public void finish() {
                    utf8.finish(out);
                    next.accept(out.toString(), true);
                    next.finish();
                }
            };
        }
    }

    /**
     * Converts tokens such as {@code <0x61>} to bytes, and runs of them to characters. A run that is not valid UTF-8
     * becomes one U+FFFD per byte. A stream must wait for the end of the run to know.
     */
    record ByteFallback() implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            return new WholeTokens() {
                private final TokenIdList run = new TokenIdList();

                @Override
                void token(String token) {
                    int value = byteOf(token);
                    if (value >= 0) {
                        run.add(value);
                    } else {
                        flush();
                        next.accept(token, true);
                    }
                }

                private void flush() {
                    if (run.size() == 0) {
                        return;
                    }
                    byte[] bytes = new byte[run.size()];
                    for (int i = 0; i < bytes.length; i++) {
                        bytes[i] = (byte) run.get(i);
                    }
                    run.clear();
                    try {
                        next.accept(
                                StandardCharsets.UTF_8
                                        .newDecoder()
                                        .decode(ByteBuffer.wrap(bytes))
                                        .toString(),
                                true);
                    } catch (CharacterCodingException malformed) {
                        for (int i = 0; i < bytes.length; i++) {
                            next.accept(String.valueOf(Utf8.REPLACEMENT), true);
                        }
                    }
                }

                @Override
                public void finish() {
                    flush();
                    next.finish();
                }
            };
        }

        /** Returns the byte of a token such as {@code <0x61>}, or -1. */
        static int byteOf(String token) {
            if (token.length() != 6 || !token.startsWith("<0x") || token.charAt(5) != '>') {
                return -1;
            }
            int high = hexadecimal(token.charAt(3));
            int low = hexadecimal(token.charAt(4));
            return high < 0 || low < 0 ? -1 : 16 * high + low;
        }

        private static int hexadecimal(char c) {
            return c < 0x80 ? Character.digit(c, 16) : -1;
        }
    }

    /** Joins all tokens into one. */
    record Fuse() implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            return new Stage() {
                @Override
                public void accept(String part, boolean last) {
                    next.accept(part, false);
                }

                @Override
                public void finish() {
                    next.accept("", true);
                    next.finish();
                }
            };
        }
    }

    /** Strips up to {@code start} and {@code stop} occurrences of a character from the start and end of each token. */
    record Strip(int content, int start, int stop) implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            return new Stage() {
                private int toDrop = start;
                private int held;

                @Override
                public void accept(String part, boolean last) {
                    StringBuilder out = new StringBuilder();
                    part.codePoints().forEach(c -> character(c, out));
                    if (last) {
                        held -= Math.min(held, stop);
                        release(out);
                        toDrop = start;
                    }
                    next.accept(out.toString(), last);
                }

                private void character(int c, StringBuilder out) {
                    if (c != content) {
                        toDrop = 0;
                        release(out);
                        out.appendCodePoint(c);
                    } else if (toDrop > 0) {
                        toDrop--;
                    } else if (++held > stop) {
                        held--;
                        out.appendCodePoint(content);
                    }
                }

                private void release(StringBuilder out) {
                    for (; held > 0; held--) {
                        out.appendCodePoint(content);
                    }
                }

                @Override
                public void finish() {
                    next.finish();
                }
            };
        }
    }

    /** Replaces SentencePiece's mark by a space, except for a mark prepended to the first token. */
    record Metaspace(char mark, boolean prepended) implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            return new WholeTokens() {
                private boolean first = prepended;

                @Override
                void token(String token) {
                    next.accept(token.replace(String.valueOf(mark), first ? "" : " "), true);
                    first = false;
                }

                @Override
                public void finish() {
                    next.finish();
                }
            };
        }
    }

    /** Replaces matches in each token; after {@link Fuse}, in the whole text at the end. */
    record Replace(Replacement replacement) implements Decoder {
        @Override
        public Stage onto(Stage next, PatternBudget budget) {
            return new WholeTokens() {
                @Override
                void token(String token) {
                    next.accept(replacement.apply(token, budget), true);
                }

                @Override
                public void finish() {
                    next.finish();
                }
            };
        }
    }

    /** Collects the parts of a token. */
    abstract class WholeTokens implements Stage {
        private final StringBuilder parts = new StringBuilder();

        abstract void token(String token);

        @Override
        public final void accept(String part, boolean last) {
            if (last && parts.isEmpty()) {
                token(part);
                return;
            }
            parts.append(part);
            if (last) {
                String whole = parts.toString();
                parts.setLength(0);
                token(whole);
            }
        }
    }
}
