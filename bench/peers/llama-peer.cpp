// Prints what llama.cpp computes. Reads one request per line from standard input and prints one result per line.
//
//   ids 5,6,7       -> the logits of every position as float32 in hexadecimal, one position after another
//   text 68656c6c6f -> the token ids of a string, given as its UTF-8 bytes in hexadecimal; special tokens are parsed, and
//                      none are added
//
// Usage: llama-peer MODEL.gguf [ADAPTER.gguf]. Weights are used as they are stored; the cache is float32, flash attention is off.

#include "llama.h"

#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

static std::string bytes_of(const std::string & hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

static bool print_logits(llama_model * model, llama_adapter_lora * adapter, const std::string & list) {
    std::vector<llama_token> ids;
    std::stringstream in(list);
    for (std::string id; std::getline(in, id, ',');) {
        ids.push_back(std::stoi(id));
    }
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = static_cast<uint32_t>(ids.size());
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.n_threads = params.n_threads_batch = 2;
    llama_context * context = llama_init_from_model(model, params);
    if (context == nullptr) {
        return false;
    }
    if (adapter != nullptr) {
        float scale = 1;
        llama_set_adapters_lora(context, &adapter, 1, &scale);
    }
    const int size = static_cast<int>(ids.size());
    llama_batch batch = llama_batch_init(size, 0, 1);
    batch.n_tokens = size;
    for (int i = 0; i < size; i++) {
        batch.token[i] = ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    const bool done = llama_decode(context, batch) == 0;
    const int width = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; done && i < size; i++) {
        const float * row = llama_get_logits_ith(context, i);
        for (int v = 0; v < width; v++) {
            uint32_t bits;
            std::memcpy(&bits, row + v, sizeof bits);
            std::printf("%08x", bits);
        }
    }
    std::printf("\n");
    llama_batch_free(batch);
    llama_free(context);
    return done;
}

static bool print_tokens(const llama_model * model, const std::string & hex) {
    const std::string text = bytes_of(hex);
    std::vector<llama_token> ids(text.size() + 16);
    const int count = llama_tokenize(
        llama_model_get_vocab(model), text.data(), static_cast<int32_t>(text.size()), ids.data(),
        static_cast<int32_t>(ids.size()), false, true);
    for (int i = 0; i < count; i++) {
        std::printf(i == 0 ? "%d" : ",%d", ids[i]);
    }
    std::printf("\n");
    return count >= 0;
}

int main(int argc, char ** argv) {
    if (argc != 2 && argc != 3) {
        std::fprintf(stderr, "usage: llama-peer MODEL.gguf [ADAPTER.gguf] < requests\n");
        return 2;
    }
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) {
            std::fputs(text, stderr);
        }
    }, nullptr);
    llama_backend_init();
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    llama_model * model = llama_model_load_from_file(argv[1], params);
    if (model == nullptr) {
        return 1;
    }
    llama_adapter_lora * adapter = argc == 3 ? llama_adapter_lora_init(model, argv[2]) : nullptr;
    bool good = argc == 2 || adapter != nullptr;
    for (std::string line; good && std::getline(std::cin, line);) {
        const size_t space = line.find(' ');
        const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
        good = line.compare(0, space, "ids") == 0 ? print_logits(model, adapter, rest) : print_tokens(model, rest);
        std::fflush(stdout);
    }
    llama_model_free(model);
    return good ? 0 : 1;
}
