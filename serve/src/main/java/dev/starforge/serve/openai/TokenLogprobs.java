package dev.starforge.serve.openai;

import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.text.tokenizer.CompletionDecodeStream;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** Writes log probabilities. Each token is decoded as in the middle of a sequence. */
final class TokenLogprobs {
    private static final String REPLACEMENT = "\uFFFD";

    private final Tokenizer tokenizer;
    private final int[] anchor;

    TokenLogprobs(Tokenizer tokenizer) {
        this.tokenizer = tokenizer;
        anchor = tokenizer.encode("a", false);
    }

    String of(int id) {
        CompletionDecodeStream stream = new CompletionDecodeStream(tokenizer, anchor);
        String text = stream.push(id) + stream.finish();
        return text.isEmpty() && tokenizer.has(id) && tokenizer.isSpecial(id) ? tokenizer.token(id) : text;
    }

    /**
     * Log probabilities of {@code /v1/completions}.
     *
     * @param offset of the first token in the text
     */
    ObjectNode completion(List<GeneratedToken> tokens, int offset) {
        ObjectNode node = JsonNodeFactory.instance.objectNode();
        ArrayNode strings = node.putArray("tokens");
        ArrayNode logprobs = node.putArray("token_logprobs");
        ArrayNode tops = node.putArray("top_logprobs");
        ArrayNode offsets = node.putArray("text_offset");
        int at = offset;
        for (GeneratedToken token : tokens) {
            String text = of(token.id());
            strings.add(text);
            logprobs.add(token.logprob());
            ObjectNode top = tops.addObject();
            token.top().forEach(candidate -> top.put(of(candidate.id()), candidate.logprob()));
            offsets.add(at);
            at += text.length();
        }
        return node;
    }

    /** Log probabilities of {@code /v1/chat/completions}. */
    ObjectNode chat(List<GeneratedToken> tokens) {
        ObjectNode node = JsonNodeFactory.instance.objectNode();
        ArrayNode content = node.putArray("content");
        for (GeneratedToken token : tokens) {
            ObjectNode entry = content.addObject();
            fill(entry, token.id(), token.logprob());
            ArrayNode top = entry.putArray("top_logprobs");
            token.top().forEach(candidate -> fill(top.addObject(), candidate.id(), candidate.logprob()));
        }
        return node.putNull("refusal");
    }

    /** A token that is part of a character has null bytes. */
    private void fill(ObjectNode entry, int id, float logprob) {
        String text = of(id);
        entry.put("token", text).put("logprob", logprob);
        if (text.contains(REPLACEMENT)) {
            entry.putNull("bytes");
        } else {
            ArrayNode bytes = entry.putArray("bytes");
            for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
                bytes.add(b & 0xFF);
            }
        }
    }
}
