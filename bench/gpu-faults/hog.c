// Allocates the memory of the first GPU except a number of bytes, prints its size, and holds it until it is killed. Without an
// argument, prints the path of the driver that the dynamic linker finds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CALL(name, ...) call(#name, ((int (*)())dlsym(cuda, #name))(__VA_ARGS__))

static void call(const char *name, int status) {
    if (status != 0) {
        printf("%s: CUDA status %d\n", name, status);
        exit(1);
    }
}

int main(int count, char **arguments) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda == NULL) {
        puts(dlerror());
        return 1;
    }
    if (count == 1) {
        struct link_map *map;
        return dlinfo(cuda, RTLD_DI_LINKMAP, &map) != 0 || puts(map->l_name) < 0;
    }
    int device;
    void *context, *taken;
    size_t left, total;
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(cuda, "cuMemAlloc_v2");
    for (size_t piece = (size_t)1 << 30; piece >= 1 << 20;) {
        CALL(cuMemGetInfo_v2, &left, &total);
        if (left < strtoull(arguments[1], NULL, 10) + piece || allocate(&taken, piece) != 0) {
            piece /= 2;
        }
    }
    printf("total %zu, left %zu\n", total, left);
    fflush(stdout);
    for (;;) {
        pause();
    }
}
