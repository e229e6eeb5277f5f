package dev.starforge.text.tokenizer;

import java.util.stream.IntStream;

/** The special tokens that the post-processor adds before and after a sequence. */
record TemplateProcessing(int[] before, int[] after) {
    static final TemplateProcessing NOTHING = new TemplateProcessing(new int[0], new int[0]);

    int[] ids() {
        return IntStream.concat(IntStream.of(before), IntStream.of(after)).toArray();
    }
}
