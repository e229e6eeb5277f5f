package dev.starforge.text.tokenizer;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Supplier;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** Golden files with other parts put in, so that every component meets the Rust library. */
public final class Variants {
    private static final JsonMapper JSON = new JsonMapper();
    private static final String BYTES =
            "{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':false}";

    public static final Map<String, Supplier<String>> ALL = new LinkedHashMap<>();

    static {
        for (String form : new String[] {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"}) {
            normalizer("{'type':'%s'}".formatted(form));
        }
        normalizer("{'type':'Strip','strip_left':true,'strip_right':false}");
        normalizer("{'type':'Strip','strip_left':true,'strip_right':true}");
        normalizer("{'type':'Sequence','normalizers':[{'type':'NFD'},{'type':'StripAccents'},{'type':'Lowercase'}]}");
        normalizer("{'type':'Replace','pattern':{'Regex':'\\\\s+'},'content':' '}");
        normalizer("{'type':'Replace','pattern':{'Regex':'(?<=o)o|\\\\bfoo\\\\b'},'content':'~'}");
        normalizer("{'type':'Prepend','prepend':'x '}");
        for (String behavior :
                new String[] {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"}) {
            for (String pattern : new String[] {"{'Regex':'\\\\s'}", "{'String':'o'}", "{'Regex':'\\\\w+|\\\\d*'}"}) {
                for (boolean invert : new boolean[] {false, true}) {
                    split(pattern, behavior, invert);
                }
            }
            preTokenizer("{'type':'Punctuation','behavior':'%s'}".formatted(behavior));
        }
        split("{'Regex':'\\\\p{N}{1,3}'}", "Isolated", false);
        split("{'Regex':'[\\u4E00-\\u9FA5\\u3040-\\u309F\\u30A0-\\u30FF]+'}", "Isolated", false);
        split(
                "{'Regex':'[!\\\"#$%&()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|[^\\r"
                        + "\\n"
                        + "\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[\\r"
                        + "\\n"
                        + "]*|\\\\s*[\\r"
                        + "\\n"
                        + "]+|\\\\s+(?!\\\\S)|\\\\s+'}",
                "Isolated", false);
        split(
                "{'Regex':'(?i:[sdmt]|ll|ve|re)|[^\\\\r"
                        + "\\\\n"
                        + "\\\\p{L}\\\\p{N}]?+\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]++[\\\\r"
                        + "\\\\n"
                        + "]*|\\\\s*[\\\\r"
                        + "\\\\n"
                        + "]|\\\\s+(?!\\\\S)|\\\\s+'}",
                "Removed",
                true);
        split("{'Regex':'^.|\\\\s+$|\\\\h+'}", "Isolated", false);
        split("{'Regex':'(?=(\\\\d{3})+(?!\\\\d))'}", "Isolated", false);
        split("{'Regex':'(?<=\\\\p{L})o|(?<!\\\\p{L})\\\\p{L}|\\\\Bo'}", "Isolated", false);
        preTokenizer("{'type':'Digits','individual_digits':false}");
        preTokenizer("{'type':'Digits','individual_digits':true}");
        preTokenizer("{'type':'Whitespace'}");
        preTokenizer("{'type':'WhitespaceSplit'}");
        put(
                "prefix space",
                "starcoder2",
                root -> parts(
                        root,
                        "pre_tokenizer",
                        "{'type':'ByteLevel','add_prefix_space':true,'trim_offsets':false,'use_regex':true}"));
        put(
                "bytes before digits",
                "starcoder2",
                root -> parts(
                        root,
                        "pre_tokenizer",
                        "{'type':'Sequence','pretokenizers':[%s,{'type':'Digits','individual_digits':true}]}"
                                .formatted(BYTES)));
        for (String scheme : new String[] {"always", "first", "never"}) {
            for (boolean split : new boolean[] {true, false}) {
                String metaspace = "{'type':'Metaspace','replacement':'\u2581','prepend_scheme':'%s','split':%s}"
                        .formatted(scheme, split);
                put("metaspace " + scheme + " " + split, "llama2", root -> {
                    root.putNull("normalizer");
                    parts(root, "pre_tokenizer", metaspace);
                    parts(root, "decoder", metaspace);
                });
            }
        }
        put("no byte fallback", "llama2", root -> model(root).put("byte_fallback", false));
        put(
                "unknown one by one",
                "llama2",
                root -> model(root).put("byte_fallback", false).put("fuse_unk", false));
        put(
                "no unknown",
                "llama2",
                root -> model(root).put("byte_fallback", false).putNull("unk_token"));
        put("some bytes missing", "llama2", root -> {
            ((ObjectNode) model(root).get("vocab")).remove("<0xE2>");
            ((ObjectNode) model(root).get("vocab")).remove("<0xF0>");
        });
        put("ignored merges", "llama2", root -> model(root).put("ignore_merges", true));
        put("no decoder", "llama2", root -> root.putNull("decoder"));
        put(
                "strip more",
                "llama2",
                root -> parts(
                        root,
                        "decoder",
                        "{'type':'Sequence','decoders':[{'type':'Fuse'},{'type':'Strip','content':'e','start':2,'stop':0}]}"));
        put(
                "replace by regex",
                "llama2",
                root -> parts(
                        root,
                        "decoder",
                        "{'type':'Sequence','decoders':[{'type':'ByteFallback'},{'type':'Replace','pattern':{'Regex':'\u2581+|e'},'content':'-'}]}"));
        for (String flags : new String[] {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
            put("added " + flags, "qwen2", root -> added(root, flags));
            put("added lowercase " + flags, "qwen2", root -> {
                parts(root, "normalizer", "{'type':'Lowercase'}");
                added(root, flags);
            });
            put("added after marks " + flags, "llama2", root -> added(root, flags));
        }
    }

    private Variants() {}

    private static void normalizer(String json) {
        put("normalizer " + json, "qwen2", root -> parts(root, "normalizer", json));
    }

    private static void preTokenizer(String json) {
        put(
                "pre " + json,
                "starcoder2",
                root -> parts(
                        root, "pre_tokenizer", "{'type':'Sequence','pretokenizers':[%s,%s]}".formatted(json, BYTES)));
    }

    private static void split(String pattern, String behavior, boolean invert) {
        preTokenizer("{'type':'Split','pattern':%s,'behavior':'%s','invert':%s}".formatted(pattern, behavior, invert));
    }

    private static void added(ObjectNode root, String flag) {
        int id = root.get("model").get("vocab").size();
        for (String content : new String[] {"foo", "<S>", "Foo_bar", "42", "=="}) {
            ObjectNode token = root.withArray("added_tokens").addObject();
            token.put("id", id++).put("content", content);
            for (String name : new String[] {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
                token.put(name, name.equals(flag));
            }
        }
    }

    private static ObjectNode model(ObjectNode root) {
        return (ObjectNode) root.get("model");
    }

    private static void parts(ObjectNode root, String key, String json) {
        root.set(key, JSON.readTree(json.replace('\'', '"')));
    }

    private static void put(String name, String base, Consumer<ObjectNode> change) {
        ALL.put(name, () -> {
            ObjectNode root = (ObjectNode) Golden.json(base + "/tokenizer.json");
            change.accept(root);
            return JSON.writeValueAsString(root);
        });
    }
}
