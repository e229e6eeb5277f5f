// The linker finds all other functions in the driver, which this library depends on.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const FAULT =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry fault() {\n"
    "    .reg .b64 %address;\n"
    "    .reg .b32 %value;\n"
    "    mov.u64 %address, 16;\n"
    "    mov.u32 %value, 1;\n"
    "    st.global.u32 [%address], %value;\n"
    "    ret;\n"
    "}\n";

static void *driver(const char *name) {
    return dlsym(dlopen(DRIVER, RTLD_NOW), name);
}

static int fault(void *stream) {
    void *module, *function;
    int (*load)(void **, const void *) = driver("cuModuleLoadData");
    int (*find)(void **, void *, const char *) = driver("cuModuleGetFunction");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
        driver("cuLaunchKernel");
    int status = load(&module, FAULT);
    status = status != 0 ? status : find(&function, module, "fault");
    return status != 0 ? status : launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

int cuGraphLaunch(void *graph, void *stream) {
    static int done;
    const char *file = getenv("GPU_FAULTS_FILE");
    if (!done && file != NULL && access(file, F_OK) == 0) {
        done = 1;
        fprintf(stderr, "gpu-faults: launched, CUDA status %d\n", fault(stream));
    }
    return ((int (*)(void *, void *))driver("cuGraphLaunch"))(graph, stream);
}
