/* A driver with one fault: a library over another driver, to which all else goes. PLANTED is the fault's number.
 * A program that opens it finds its functions first, and those of the driver behind it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long CUdeviceptr;
typedef void *CUhandle;

static int planted(int number) {
    const char *said = getenv("PLANTED");
    return said && atoi(said) == number;
}

/* Defines a function that has a fault: `wrong` is what it does then. */
#define FAULTY(number, name, parameters, arguments, wrong)                                                             \
    int name parameters {                                                                                              \
        int(*right) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name);                                           \
        if (planted(number)) {                                                                                         \
            wrong;                                                                                                     \
        }                                                                                                              \
        return right arguments;                                                                                        \
    }

/* An optional answer is wanted. */
FAULTY(1, cuMemGetInfo_v2, (size_t * free, size_t *total), (free, total), if (!free || !total) return 1)
/* Nothing is allocated, and that is well. */
FAULTY(2, cuMemAlloc_v2, (CUdeviceptr * at, size_t bytes), (at, bytes), if (bytes == 0) return 0)
/* A null handle is a stream. */
FAULTY(3, cuStreamDestroy_v2, (CUhandle stream), (stream), if (!stream) return 0)
/* Flags that there are not are ignored. */
FAULTY(4, cuStreamCreate, (CUhandle * stream, unsigned flags), (stream, flags), return right(stream, flags & 1))
/* An event that was not recorded is not reached. */
FAULTY(5, cuEventQuery, (CUhandle event), (event), return 600)
/* A copy to the host leaves out its last byte. */
FAULTY(6, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes),
       return right(to, from, bytes ? bytes - 1 : 0))
/* A fill is one word short. */
FAULTY(7, cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t words), (to, value, words),
       return right(to, value, words ? words - 1 : 0))
/* What is no image is taken for wrong PTX. */
FAULTY(8, cuModuleLoadData, (CUhandle * module, const void *image), (module, image), {
    int code = right(module, image);
    return code == 200 ? 218 : code;
})
/* A name that there is not is an invalid value. */
FAULTY(9, cuModuleGetFunction, (CUhandle * function, CUhandle module, const char *name), (function, module, name), {
    int code = right(function, module, name);
    return code == 500 ? 1 : code;
})
/* A launch whose shape is refused is well. */
FAULTY(10, cuLaunchKernel,
       (CUhandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
        unsigned shared, CUhandle stream, void **parameters, void **extra),
       (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra), {
           int code = right(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
           return code == 1 ? 0 : code;
       })
/* Each capture is a relaxed one. */
FAULTY(11, cuStreamBeginCapture_v2, (CUhandle stream, int mode), (stream, mode), return right(stream, mode == 0 ? 2 : mode))
/* A stream that is captured is said to be none. */
FAULTY(12, cuStreamIsCapturing, (CUhandle stream, int *status), (stream, status), {
    int code = right(stream, status);
    if (code == 0)
        *status = 0;
    return code;
})
/* A node too many is counted. */
FAULTY(13, cuGraphGetNodes, (CUhandle graph, CUhandle *nodes, size_t *count), (graph, nodes, count), {
    int code = right(graph, nodes, count);
    if (code == 0 && !nodes)
        ++*count;
    return code;
})
/* An attribute that there is not is 0. */
FAULTY(14, cuPointerGetAttribute, (void *data, int attribute, CUdeviceptr at), (data, attribute, at),
       if (attribute > 100) return 0)
/* A number that is no error has a name. */
FAULTY(15, cuGetErrorName, (int code, const char **name), (code, name), if (code == 9) {
    *name = "CUDA_ERROR_OF_NO_NAME";
    return 0;
})
/* Two attributes contradict one another: blocks have more threads than multiprocessors. */
FAULTY(16, cuDeviceGetAttribute, (int *value, int attribute, int device), (value, attribute, device),
       if (attribute == 39 && value) {
           *value = 32;
           return 0;
       })
/* The current context stays on its stack. */
FAULTY(17, cuCtxPopCurrent_v2, (CUhandle * context), (context), {
    int cuCtxGetCurrent(CUhandle *);
    CUhandle ignored;
    return cuCtxGetCurrent(context ? context : &ignored);
})
/* An allocation is said to begin a byte late. */
FAULTY(18, cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *bytes, CUdeviceptr at), (base, bytes, at), {
    int code = right(base, bytes, at);
    if (code == 0 && base)
        ++*base;
    return code;
})
/* It dies. */
FAULTY(19, cuFuncGetAttribute, (int *value, int attribute, CUhandle function), (value, attribute, function), abort())
/* It does not return. */
FAULTY(20, cuCtxSetLimit, (int limit, size_t value), (limit, value), if (limit > 50) for (;;) pause())

/* Its process dies at its end. */
__attribute__((destructor)) static void ends(void) {
    if (planted(21))
        abort();
}
