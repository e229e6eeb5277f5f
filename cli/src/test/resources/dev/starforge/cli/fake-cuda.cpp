// NVIDIA's driver, NVRTC, cuBLASLt and NVML for a machine without a GPU, in one library: memory is the host's, and of kernels only two
// do anything, so that a worker starts. FAKE_CUDA_FAILS names a function that fails, FAKE_CUDA_LOST a file from whose appearance on every
// wait ends in a sticky error. Contexts that were not given back are counted in the end.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

typedef unsigned long long u64;

namespace {
const char* BUS_ID = "0000:65:00.0";
int contexts;

bool fails(const char* function) {
    const char* named = getenv("FAKE_CUDA_FAILS");
    return named != nullptr && strcmp(named, function) == 0;
}

bool faulted; // by the kernel that ./dev gpu-faults launches

bool lost() {
    const char* file = getenv("FAKE_CUDA_LOST");
    return faulted || (file != nullptr && access(file, F_OK) == 0);
}

struct AtExit {
    ~AtExit() {
        fprintf(stderr, "contexts left: %d\n", contexts);
    }
} at_exit;

template <typename T> T argument(void** parameters, int i) {
    return *(T*)parameters[i];
}

// a[rows, terms] b[terms, columns], which is what the check of a device asks for.
void multiply(void** p) {
    const float* a = argument<const float*>(p, 0);
    const float* b = argument<const float*>(p, 1);
    float* c = argument<float*>(p, 2);
    int rows = argument<int>(p, 4);
    int columns = argument<int>(p, 5);
    int terms = argument<int>(p, 6);
    for (int i = 0; i < rows * columns; i++) {
        double sum = 0;
        for (int k = 0; k < terms; k++) {
            sum += (double)a[i / columns * terms + k] * b[k * columns + i % columns];
        }
        c[i] = (float)sum;
    }
}

int launch(const char* kernel, unsigned groups, void** p) {
    if (strcmp(kernel, "MatMul") == 0) {
        multiply(p);
    } else if (strcmp(kernel, "Sample") == 0) {
        for (unsigned i = 0; i < groups; i++) {
            argument<int*>(p, 8)[i] = 5;
        }
    } else if (strcmp(kernel, "fault") == 0) {
        faulted = true;
    }
    return 0;
}
} // namespace

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetName(char* name, int, int) { return strcpy(name, "Fake"), 0; }
int cuDeviceGetPCIBusId(char* id, int, int) { return strcpy(id, BUS_ID), 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    return *value = attribute == 16 ? 4 : attribute == 75 ? 9 : 0, 0;
}
int cuDeviceTotalMem_v2(u64* bytes, int) { return *bytes = 8ull << 30, 0; }
int cuDevicePrimaryCtxRetain(u64* context, int) {
    return fails("cuDevicePrimaryCtxRetain") ? 2 : (*context = ++contexts, 0);
}
int cuDevicePrimaryCtxRelease_v2(int) { return contexts--, 0; }
int cuCtxSetCurrent(u64) { return 0; }
int cuMemAlloc_v2(void** pointer, u64 bytes) {
    return fails("cuMemAlloc_v2") ? 2 : (*pointer = calloc(1, bytes), 0);
}
int cuMemFree_v2(void* pointer) { return free(pointer), 0; }
int cuMemGetInfo_v2(u64* free, u64* total) { return *free = 1 << 20, *total = 8ull << 30, 0; }
int cuMemHostAlloc(void** pointer, u64 bytes, unsigned) { return *pointer = calloc(1, bytes), 0; }
int cuMemFreeHost(void* pointer) { return free(pointer), 0; }
int cuMemcpyHtoDAsync_v2(void* to, const void* from, u64 bytes, u64) { return memcpy(to, from, bytes), 0; }
int cuMemcpyDtoHAsync_v2(void* to, const void* from, u64 bytes, u64) { return memcpy(to, from, bytes), 0; }
int cuMemcpyDtoDAsync_v2(void* to, const void* from, u64 bytes, u64) { return memmove(to, from, bytes), 0; }
int cuMemsetD8Async(void* to, unsigned char value, u64 bytes, u64) { return memset(to, value, bytes), 0; }
int cuModuleLoadData(u64* module, const void*) { return *module = 1, fails("cuModuleLoadData") ? 2 : 0; }
int cuModuleUnload(u64) { return 0; }
int cuModuleGetFunction(char** function, u64, const char* name) { return *function = strdup(name), 0; }
int cuFuncSetAttribute(const char*, int, int) { return 0; }
int cuLaunchKernel(const char* f, unsigned x, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, u64, void** p, void**) {
    return launch(f, x, p);
}
int cuLaunchKernelEx(const unsigned* config, const char* f, void** p, void**) { return launch(f, config[0], p); }
int cuStreamCreate(u64* stream, unsigned) { return *stream = 1, fails("cuStreamCreate") ? 999 : 0; }
int cuStreamDestroy_v2(u64) { return 0; }
int cuStreamSynchronize(u64) { return lost() ? 700 : 0; }
int cuStreamBeginCapture_v2(u64, int) { return 0; }
int cuStreamEndCapture(u64, u64* graph) { return *graph = 1, 0; }
int cuGraphInstantiateWithFlags(u64* graph, u64, u64) {
    return *graph = 1, fails("cuGraphInstantiateWithFlags") ? 2 : 0;
}
int cuGraphLaunch(u64, u64) { return 0; }
int cuGraphExecDestroy(u64) { return 0; }
int cuGraphDestroy(u64) { return 0; }
int cuGetErrorName(int status, const char** name) {
    return *name = status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN", 0;
}
int cuGetErrorString(int, const char** text) { return *text = "as asked for", 0; }

int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
int nvrtcCreateProgram(u64* program, const char*, const char*, int, void*, void*) { return *program = 1, 0; }
int nvrtcCompileProgram(u64, int, void*) { return 0; }
int nvrtcGetCUBINSize(u64, u64* bytes) { return *bytes = 4, 0; }
int nvrtcGetCUBIN(u64, char* code) { return memset(code, 0, 4), 0; }
int nvrtcGetPTXSize(u64, u64* bytes) { return *bytes = 4, 0; }
int nvrtcGetPTX(u64, char* code) { return memset(code, 0, 4), 0; }
int nvrtcGetProgramLogSize(u64, u64* bytes) { return *bytes = 1, 0; }
int nvrtcGetProgramLog(u64, char* log) { return *log = 0, 0; }
int nvrtcDestroyProgram(u64*) { return 0; }
const char* nvrtcGetErrorString(int) { return "none"; }

int cublasLtCreate(u64* handle) { return *handle = 1, 0; }
int cublasLtDestroy(u64) { return 0; }
int cublasLtMatmulDescCreate(u64* desc, int, int) { return *desc = 1, 0; }
int cublasLtMatmulDescDestroy(u64) { return 0; }
int cublasLtMatmulDescSetAttribute(u64, int, void*, u64) { return 0; }
int cublasLtMatrixLayoutCreate(u64* layout, int, u64, u64, u64) { return *layout = 1, 0; }
int cublasLtMatrixLayoutDestroy(u64) { return 0; }
int cublasLtMatrixLayoutSetAttribute(u64, int, void*, u64) { return 0; }
int cublasLtMatmulPreferenceCreate(u64* preference) { return *preference = 1, 0; }
int cublasLtMatmulPreferenceSetAttribute(u64, int, void*, u64) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(u64, u64, u64, u64, u64, u64, u64, int, void*, int*) { return 15; } // has none for any shape

struct nvmlUtilization_t { unsigned gpu, memory; };
struct nvmlMemory_t { u64 total, free, used; };
int nvmlInit_v2() { return fails("nvmlInit_v2") ? 18 : 0; }
const char* nvmlErrorString(int status) { return status == 18 ? "Driver/library version mismatch" : "Unknown Error"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, u64* device) { return *device = 42, strcmp(id, BUS_ID) == 0 ? 0 : 6; }
int nvmlDeviceGetUtilizationRates(u64 device, nvmlUtilization_t* rates) {
    return *rates = {37, 11}, fails("nvmlDeviceGetUtilizationRates") ? 3 : device == 42 ? 0 : 2;
}
int nvmlDeviceGetMemoryInfo(u64 device, nvmlMemory_t* memory) { return *memory = {8ull << 30, 5ull << 30, 3ull << 30}, device == 42 ? 0 : 2; }
}
