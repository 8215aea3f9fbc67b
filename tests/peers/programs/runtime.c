/* A kernel through NVIDIA's CUDA runtime, as nvcc's code uses it: the image is registered at the
 * start, and launched by the address of a host function.
 *
 *   runtime IMAGE [LIBCUDART]    IMAGE is a fatbin with `add_one(float *, unsigned)`; LIBCUDART is
 *                                loaded, or else what the program is linked with is used
 *
 * Prints the runtime's version, the driver's, and how many elements were right; exits 1 where not
 * all were. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { unsigned x, y, z; } dim;

/* The wrapper that nvcc's objects hold: a magic number, a version, where the container is. */
typedef struct { int magic, version; const void *data; void *more; } wrapper;

#define FUNCTIONS(each) \
    each(void **, __cudaRegisterFatBinary, (void *)) \
    each(void, __cudaRegisterFatBinaryEnd, (void **)) \
    each(void, __cudaUnregisterFatBinary, (void **)) \
    each(void, __cudaRegisterFunction, (void **, const char *, char *, const char *, int, void *, \
                                        void *, void *, void *, int *)) \
    each(int, cudaRuntimeGetVersion, (int *)) \
    each(int, cudaDriverGetVersion, (int *)) \
    each(int, cudaGetDeviceCount, (int *)) \
    each(int, cudaMalloc, (void **, size_t)) \
    each(int, cudaMemcpy, (void *, const void *, size_t, int)) \
    each(int, cudaFree, (void *)) \
    each(int, cudaLaunchKernel, (const void *, dim, dim, void **, size_t, void *)) \
    each(int, cudaDeviceSynchronize, (void)) \
    each(const char *, cudaGetErrorName, (int)) \
    each(const char *, cudaGetErrorString, (int))

#ifdef LINKED
#define DECLARE(result, name, arguments) extern result name arguments;
FUNCTIONS(DECLARE)
static void find(const char *library) { (void)library; }
#else
#define DECLARE(result, name, arguments) static result(*name) arguments;
FUNCTIONS(DECLARE)
static void find(const char *library) {
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define FIND(result, name, arguments) \
    if (!(*(void **)&name = dlsym(handle, #name))) { \
        fprintf(stderr, "%s: no %s\n", library, #name); \
        exit(1); \
    }
    FUNCTIONS(FIND)
}
#endif

static void check(int status, const char *what) {
    if (status) {
        fprintf(stderr, "%s: %d %s: %s\n", what, status, cudaGetErrorName(status),
                cudaGetErrorString(status));
        exit(1);
    }
}

/* Its address is the kernel's name on the host. */
static void add_one(void) {}

static void *image(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    void *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
    if (fread(bytes, 1, size, file) != size) exit(1);
    fclose(file);
    return bytes;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    find(count > 2 ? arguments[2] : NULL);
    wrapper held = {0x466243b1, 1, image(arguments[1]), NULL};
    void **module = __cudaRegisterFatBinary(&held);
    __cudaRegisterFunction(module, (const char *)add_one, "add_one", "add_one", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(module);
    int runtime = 0, driver = 0, devices = 0;
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    enum { N = 1000 };
    float host[N], *device = NULL;
    for (int i = 0; i < N; i++) host[i] = (float)i;
    check(cudaMalloc((void **)&device, sizeof host), "cudaMalloc");
    check(cudaMemcpy(device, host, sizeof host, 1), "cudaMemcpy");
    unsigned n = N;
    void *values[] = {&device, &n};
    dim grid = {4, 1, 1}, block = {256, 1, 1};
    check(cudaLaunchKernel((const void *)add_one, grid, block, values, 0, NULL), "cudaLaunchKernel");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(host, device, sizeof host, 2), "cudaMemcpy");
    check(cudaFree(device), "cudaFree");
    int right = 0;
    for (int i = 0; i < N; i++) right += host[i] == (float)i + 1;
    printf("runtime %d driver %d devices %d right %d\n", runtime, driver, devices, right);
    __cudaUnregisterFatBinary(module);
    return right == N ? 0 : 1;
}
