/* The part of CUDA's driver API that the programs here use, declared by hand: no CUDA header is
   needed. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUnode_st *CUnode;
typedef struct CUexec_st *CUexec;
typedef struct CUlink_st *CUlink;

typedef struct {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
} KernelNode;
typedef struct {
    CUdeviceptr address;
    size_t pitch;
    unsigned value, width;
    size_t count, rows;
} SetNode;
typedef struct {
    size_t x, y, z, level;
    unsigned kind;
    const void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} Side;
typedef struct {
    Side from, to;
    size_t width, height, depth;
} Copy3D;
typedef struct {
    size_t x, y;
    unsigned kind;
    const void *host;
    CUdeviceptr device;
    void *array;
    size_t pitch;
} FlatSide;
typedef struct {
    FlatSide from, to;
    size_t width, height;
} Copy2D;

typedef struct CUarray_st *CUarray;
typedef struct CUmipmap_st *CUmipmap;
typedef unsigned long long CUobject;
typedef struct {
    size_t width, height;
    int format;
    unsigned channels;
} ArrayFlat;
typedef struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
} ArrayBox;
typedef struct {
    int kind;
    union {
        CUarray array;
        struct {
            CUdeviceptr address;
            int format;
            unsigned channels;
            size_t bytes;
        } linear;
        struct {
            CUdeviceptr address;
            int format;
            unsigned channels;
            size_t width, height, pitch;
        } pitched;
        int reserved[32];
    } of;
    unsigned flags;
} Resource;
typedef struct {
    int modes[3], filter;
    unsigned flags, anisotropy;
    int mipmap_filter;
    float mipmap_bias, mipmap_levels[2], border[4];
    int reserved[12];
} Sampling;
typedef struct {
    int format;
    size_t sizes[3];
    unsigned levels[2], layers[2], reserved[16];
} View;

int cuInit(unsigned);
int cuGetExportTable(const void **, const void *);
int cuModuleGetLoadingMode(int *);
int cuModuleGetFunctionCount(unsigned *, CUmodule);
int cuModuleEnumerateFunctions(CUfunction *, unsigned, CUmodule);
int cuFuncGetName(const char **, CUfunction);
int cuGetErrorString(int, const char **);
int cuGetErrorName(int, const char **);
int cuDeviceGetCount(int *);
int cuDeviceGetAttribute(int *, int, int);
int cuDeviceTotalMem_v2(size_t *, int);
int cuDevicePrimaryCtxRetain(CUcontext *, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuDevicePrimaryCtxReset_v2(int);
int cuDevicePrimaryCtxGetState(int, unsigned *, int *);
int cuDevicePrimaryCtxSetFlags_v2(int, unsigned);
int cuDeviceGetTexture1DLinearMaxWidth(size_t *, int, unsigned, int);
int cuCtxCreate_v2(CUcontext *, unsigned, int);
int cuCtxDestroy_v2(CUcontext);
int cuCtxGetCurrent(CUcontext *);
int cuCtxSetCurrent(CUcontext);
int cuCtxPushCurrent_v2(CUcontext);
int cuCtxPopCurrent_v2(CUcontext *);
int cuCtxGetDevice(int *);
int cuCtxSynchronize(void);
int cuModuleLoadData(CUmodule *, const void *);
int cuModuleLoadDataEx(CUmodule *, const void *, unsigned, int *, void **);
int cuModuleUnload(CUmodule);
int cuLibraryLoadData(CUlibrary *, const void *, int *, void **, unsigned, int *, void **, unsigned);
int cuLibraryGetKernel(CUfunction *, CUlibrary, const char *);
int cuLibraryGetGlobal(CUdeviceptr *, size_t *, CUlibrary, const char *);
int cuModuleGetFunction(CUfunction *, CUmodule, const char *);
int cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *);
int cuFuncGetAttribute(int *, int, CUfunction);
int cuFuncGetParamInfo(CUfunction, size_t, size_t *, size_t *);
int cuMemAlloc_v2(CUdeviceptr *, size_t);
int cuMemFree_v2(CUdeviceptr);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuDeviceGetName(char *, int, int);
int cuDeviceGetPCIBusId(char *, int, int);
int cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);
int cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *);
int cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned);
int cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
int cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
int cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
int cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream);
int cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
int cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
int cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t);
int cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
int cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
int cuMemcpy2D_v2(const Copy2D *);
int cuMemcpy2DAsync_v2(const Copy2D *, CUstream);
int cuMemcpy3D_v2(const Copy3D *);
int cuMemcpy3DAsync_v2(const Copy3D *, CUstream);
int cuMemcpy3DPeer(const Copy3D *);
int cuMemcpy3DPeerAsync(const Copy3D *, CUstream);
int cuMemcpyHtoA_v2(CUarray, size_t, const void *, size_t);
int cuMemcpyAtoH_v2(void *, CUarray, size_t, size_t);
int cuMemcpyDtoA_v2(CUarray, size_t, CUdeviceptr, size_t);
int cuMemcpyAtoD_v2(CUdeviceptr, CUarray, size_t, size_t);
int cuMemcpyAtoA_v2(CUarray, size_t, CUarray, size_t, size_t);
int cuMemcpyHtoAAsync_v2(CUarray, size_t, const void *, size_t, CUstream);
int cuMemcpyAtoHAsync_v2(void *, CUarray, size_t, size_t, CUstream);
int cuArrayCreate_v2(CUarray *, const ArrayFlat *);
int cuArrayGetDescriptor_v2(ArrayFlat *, CUarray);
int cuArray3DCreate_v2(CUarray *, const ArrayBox *);
int cuArray3DGetDescriptor_v2(ArrayBox *, CUarray);
int cuArrayDestroy(CUarray);
int cuMipmappedArrayCreate(CUmipmap *, const ArrayBox *, unsigned);
int cuMipmappedArrayGetLevel(CUarray *, CUmipmap, unsigned);
int cuMipmappedArrayDestroy(CUmipmap);
int cuTexObjectCreate(CUobject *, const Resource *, const Sampling *, const View *);
int cuTexObjectDestroy(CUobject);
int cuTexObjectGetResourceDesc(Resource *, CUobject);
int cuTexObjectGetTextureDesc(Sampling *, CUobject);
int cuTexObjectGetResourceViewDesc(View *, CUobject);
int cuSurfObjectCreate(CUobject *, const Resource *);
int cuSurfObjectDestroy(CUobject);
int cuSurfObjectGetResourceDesc(Resource *, CUobject);
int cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
int cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   CUstream, void **, void **);
int cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, unsigned, CUstream, void **);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int, size_t);
int cuLaunchHostFunc(CUstream, void (*)(void *), void *);
int cuPointerGetAttribute(void *, int, CUdeviceptr);
int cuStreamCreate(CUstream *, unsigned);
int cuStreamDestroy_v2(CUstream);
int cuStreamSynchronize(CUstream);
int cuStreamWaitEvent(CUstream, CUevent, unsigned);
int cuStreamBeginCapture_v2(CUstream, int);
int cuStreamEndCapture(CUstream, CUgraph *);
int cuStreamIsCapturing(CUstream, int *);
int cuEventCreate(CUevent *, unsigned);
int cuEventDestroy_v2(CUevent);
int cuEventRecord(CUevent, CUstream);
int cuEventQuery(CUevent);
int cuEventElapsedTime(float *, CUevent, CUevent);
int cuEventSynchronize(CUevent);
int cuGraphCreate(CUgraph *, unsigned);
int cuGraphDestroy(CUgraph);
int cuGraphClone(CUgraph *, CUgraph);
int cuGraphGetNodes(CUgraph, CUnode *, size_t *);
int cuGraphNodeGetType(CUnode, int *);
int cuGraphAddKernelNode(CUnode *, CUgraph, const CUnode *, size_t, const KernelNode *);
int cuGraphAddMemsetNode(CUnode *, CUgraph, const CUnode *, size_t, const SetNode *, CUcontext);
int cuGraphAddMemcpyNode(CUnode *, CUgraph, const CUnode *, size_t, const Copy3D *, CUcontext);
int cuGraphAddEmptyNode(CUnode *, CUgraph, const CUnode *, size_t);
int cuGraphInstantiate_v2(CUexec *, CUgraph, CUnode *, char *, size_t);
int cuGraphInstantiateWithFlags(CUexec *, CUgraph, unsigned long long);
int cuGraphExecKernelNodeSetParams(CUexec, CUnode, const KernelNode *);
int cuGraphExecUpdate(CUexec, CUgraph, CUnode *, int *);
int cuGraphLaunch(CUexec, CUstream);
int cuGraphExecDestroy(CUexec);
int cuLinkCreate_v2(unsigned, int *, void **, CUlink *);
int cuLinkAddData_v2(CUlink, int, void *, size_t, const char *, unsigned, int *, void **);
int cuLinkComplete(CUlink, void **, size_t *);
int cuLinkDestroy(CUlink);

/* Ends the program unless a call answers as it should. */
#define ANSWERS(wanted, call)                                                                      \
    do {                                                                                           \
        int answered = (call);                                                                     \
        if (answered != (wanted)) {                                                                \
            const char *text = "";                                                                 \
            cuGetErrorString(answered, &text);                                                     \
            fprintf(stderr, "line %d: %s: %d %s\n", __LINE__, #call, answered, text);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CHECK(call) ANSWERS(0, call)

/* Ends the program unless something holds. */
#define ASSERT(holds)                                                                              \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #holds);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
