//! Modules, libraries, the linker, functions, launches, occupancy.

use super::rows;
use crate::role::Object::{Function, Kernel, Library, Link, Module, Stream, Surface, Texture};
use crate::role::ParameterRole::{
    Any, Callback, Count, Device, Flags, Handle, HandleIf, In, InIf, KernelName, List, OneOf, Out,
    OutIf, Path, Size, VariableName,
};

/// PTX, a fat binary, an object, a library and the others that `CUjitInputType` names.
const INPUTS: &[i64] = &[0, 1, 2, 3, 4, 5];
/// None, shared, L1, equal.
const CACHE: &[i64] = &[0, 1, 2, 3];
/// The default, four bytes, eight bytes.
const BANKS: &[i64] = &[0, 1, 2];
/// `CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE`.
const OCCUPANCY: u64 = 1;

rows! { ROWS:
    "Module Management" {
        cuModuleGetLoadingMode(Any) { mode: Out }
        cuModuleLoad(Context) { module: Out, fname: Path }
        cuModuleLoadData(Context) { module: Out, image: In }
        cuModuleLoadDataEx(Context) { module: Out, image: In, numOptions: Count, options: List, optionValues: List }
        cuModuleLoadFatBinary(Context) { module: Out, fatCubin: In }
        cuModuleUnload(Initialised, Unsafe) { hmod: Handle(Module) }
        cuModuleGetFunction(Initialised) { hfunc: Out, hmod: Handle(Module), name: KernelName }
        cuModuleGetFunctionCount(Initialised) { count: Out, r#mod: Handle(Module) }
        cuModuleEnumerateFunctions(Initialised) { functions: List, numFunctions: Count, r#mod: Handle(Module) }
        cuModuleGetGlobal_v2(Initialised) { dptr: OutIf, bytes: OutIf, hmod: Handle(Module), name: VariableName }
        cuLinkCreate(Context) { numOptions: Count, options: List, optionValues: List, stateOut: Out }
        cuLinkCreate_v2(Context) { numOptions: Count, options: List, optionValues: List, stateOut: Out }
        cuLinkAddData(Initialised) {
            state: Handle(Link), r#type: OneOf(INPUTS), data: In, size: Size, name: InIf,
            numOptions: Count, options: List, optionValues: List,
        }
        cuLinkAddData_v2(Initialised) {
            state: Handle(Link), r#type: OneOf(INPUTS), data: In, size: Size, name: InIf,
            numOptions: Count, options: List, optionValues: List,
        }
        cuLinkAddFile(Initialised) {
            state: Handle(Link), r#type: OneOf(INPUTS), path: Path, numOptions: Count, options: List,
            optionValues: List,
        }
        cuLinkAddFile_v2(Initialised) {
            state: Handle(Link), r#type: OneOf(INPUTS), path: Path, numOptions: Count, options: List,
            optionValues: List,
        }
        cuLinkComplete(Initialised) { state: Handle(Link), cubinOut: Out, sizeOut: OutIf }
        cuLinkDestroy(Initialised) { state: Handle(Link) }
    }
    "Library Management" {
        cuLibraryLoadData(Initialised) {
            library: Out, code: In, jitOptions: List, jitOptionsValues: List, numJitOptions: Count,
            libraryOptions: List, libraryOptionValues: List, numLibraryOptions: Count,
        }
        cuLibraryLoadFromFile(Initialised) {
            library: Out, fileName: Path, jitOptions: List, jitOptionsValues: List, numJitOptions: Count,
            libraryOptions: List, libraryOptionValues: List, numLibraryOptions: Count,
        }
        cuLibraryUnload(Initialised, Unsafe) { library: Handle(Library) }
        cuLibraryGetKernel(Initialised) { pKernel: Out, library: Handle(Library), name: KernelName }
        cuLibraryGetKernelCount(Initialised) { count: Out, lib: Handle(Library) }
        cuLibraryEnumerateKernels(Initialised) { kernels: List, numKernels: Count, lib: Handle(Library) }
        cuLibraryGetModule(Context) { pMod: Out, library: Handle(Library) }
        cuLibraryGetGlobal(Context) { dptr: OutIf, bytes: OutIf, library: Handle(Library), name: VariableName }
        cuLibraryGetManaged(Initialised) { dptr: OutIf, bytes: OutIf, library: Handle(Library), name: VariableName }
        cuKernelGetFunction(Context) { pFunc: Out, kernel: Handle(Kernel) }
        cuKernelGetLibrary(Initialised) { pLib: Out, kernel: Handle(Kernel) }
        cuKernelGetName(Initialised) { name: Out, hfunc: Handle(Kernel) }
        cuKernelGetAttribute(Initialised) { pi: Out, attrib: Any, kernel: Handle(Kernel), dev: Device }
        cuKernelSetAttribute(Initialised) { attrib: Any, val: Any, kernel: Handle(Kernel), dev: Device }
        cuKernelSetCacheConfig(Initialised) { kernel: Handle(Kernel), config: OneOf(CACHE), dev: Device }
        cuKernelGetParamInfo(Initialised) {
            kernel: Handle(Kernel), paramIndex: Any, paramOffset: Out, paramSize: OutIf,
        }
        cuKernelGetParamCount(Initialised) { kernel: Handle(Kernel), paramCount: Out }
    }
    "Execution Control" {
        cuFuncGetAttribute(Initialised) { pi: Out, attrib: Any, hfunc: Handle(Function) }
        cuFuncSetAttribute(Initialised) { hfunc: Handle(Function), attrib: Any, value: Any }
        cuFuncSetCacheConfig(Initialised) { hfunc: Handle(Function), config: OneOf(CACHE) }
        cuFuncSetSharedMemConfig(Initialised) { hfunc: Handle(Function), config: OneOf(BANKS) }
        cuFuncGetModule(Initialised) { hmod: Out, hfunc: Handle(Function) }
        cuFuncGetName(Initialised) { name: Out, hfunc: Handle(Function) }
        cuFuncGetParamInfo(Initialised) {
            func: Handle(Function), paramIndex: Any, paramOffset: Out, paramSize: OutIf,
        }
        cuFuncGetParamCount(Initialised) { func: Handle(Function), paramCount: Out }
        cuFuncIsLoaded(Initialised) { state: Out, function: Handle(Function) }
        cuFuncLoad(Initialised) { function: Handle(Function) }
        cuLaunchKernel(Initialised) {
            f: Handle(Function), gridDimX: Size, gridDimY: Size, gridDimZ: Size, blockDimX: Size, blockDimY: Size,
            blockDimZ: Size, sharedMemBytes: Any, hStream: HandleIf(Stream), kernelParams: InIf, extra: InIf,
        }
        cuLaunchKernelEx(Initialised) { config: In, f: Handle(Function), kernelParams: InIf, extra: InIf }
        cuLaunchKernelEx_ptsz(Initialised) { config: In, f: Handle(Function), kernelParams: InIf, extra: InIf }
        cuLaunchCooperativeKernel(Initialised) {
            f: Handle(Function), gridDimX: Size, gridDimY: Size, gridDimZ: Size, blockDimX: Size, blockDimY: Size,
            blockDimZ: Size, sharedMemBytes: Any, hStream: HandleIf(Stream), kernelParams: InIf,
        }
        cuLaunchHostFunc(Initialised) { hStream: HandleIf(Stream), r#fn: Callback, userData: Any }
    }
    "Execution Control [DEPRECATED]" {
        cuFuncSetBlockShape(Initialised) { hfunc: Handle(Function), x: Size, y: Size, z: Size }
        cuFuncSetSharedSize(Initialised) { hfunc: Handle(Function), bytes: Any }
        cuParamSetSize(Initialised) { hfunc: Handle(Function), numbytes: Any }
        cuParamSeti(Initialised) { hfunc: Handle(Function), offset: Any, value: Any }
        cuParamSetf(Initialised) { hfunc: Handle(Function), offset: Any, value: Any }
        cuParamSetv(Initialised) { hfunc: Handle(Function), offset: Any, ptr: In, numbytes: Count }
        cuLaunch(Initialised) { f: Handle(Function) }
        cuLaunchGrid(Initialised) { f: Handle(Function), grid_width: Size, grid_height: Size }
        cuLaunchGridAsync(Initialised) {
            f: Handle(Function), grid_width: Size, grid_height: Size, hStream: HandleIf(Stream),
        }
    }
    "Occupancy" {
        cuOccupancyMaxActiveBlocksPerMultiprocessor(Initialised) {
            numBlocks: Out, func: Handle(Function), blockSize: Size, dynamicSMemSize: Any,
        }
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(Initialised) {
            numBlocks: Out, func: Handle(Function), blockSize: Size, dynamicSMemSize: Any, flags: Flags(OCCUPANCY),
        }
        cuOccupancyMaxPotentialBlockSize(Initialised) {
            minGridSize: OutIf, blockSize: OutIf, func: Handle(Function), blockSizeToDynamicSMemSize: Any,
            dynamicSMemSize: Any, blockSizeLimit: Any,
        }
        cuOccupancyMaxPotentialBlockSizeWithFlags(Initialised) {
            minGridSize: OutIf, blockSize: OutIf, func: Handle(Function), blockSizeToDynamicSMemSize: Any,
            dynamicSMemSize: Any, blockSizeLimit: Any, flags: Flags(OCCUPANCY),
        }
        cuOccupancyAvailableDynamicSMemPerBlock(Initialised) {
            dynamicSmemSize: Out, func: Handle(Function), numBlocks: Size, blockSize: Size,
        }
        cuOccupancyMaxPotentialClusterSize(Initialised) { clusterSize: Out, func: Handle(Function), config: In }
        cuOccupancyMaxActiveClusters(Initialised) { numClusters: Out, func: Handle(Function), config: In }
    }
    "Texture Object Management" {
        cuTexObjectCreate(Context) { pTexObject: Out, pResDesc: In, pTexDesc: In, pResViewDesc: InIf }
        cuTexObjectDestroy(Initialised) { texObject: Handle(Texture) }
        cuTexObjectGetResourceDesc(Initialised) { pResDesc: Out, texObject: Handle(Texture) }
        cuTexObjectGetTextureDesc(Initialised) { pTexDesc: Out, texObject: Handle(Texture) }
        cuTexObjectGetResourceViewDesc(Initialised) { pResViewDesc: Out, texObject: Handle(Texture) }
    }
    "Surface Object Management" {
        cuSurfObjectCreate(Context) { pSurfObject: Out, pResDesc: In }
        cuSurfObjectDestroy(Initialised) { surfObject: Handle(Surface) }
        cuSurfObjectGetResourceDesc(Initialised) { pResDesc: Out, surfObject: Handle(Surface) }
    }
    "Tensor Map Object Management" {
        cuTensorMapEncodeTiled(Initialised) {
            tensorMap: Out, tensorDataType: Any, tensorRank: Any, globalAddress: Any, globalDim: In,
            globalStrides: InIf, boxDim: In, elementStrides: In, interleave: OneOf(&[0, 1, 2]), swizzle: Any,
            l2Promotion: OneOf(&[0, 1, 2, 3]), oobFill: OneOf(&[0, 1]),
        }
        cuTensorMapEncodeIm2col(Initialised) {
            tensorMap: Out, tensorDataType: Any, tensorRank: Any, globalAddress: Any, globalDim: In,
            globalStrides: In, pixelBoxLowerCorner: In, pixelBoxUpperCorner: In, channelsPerPixel: Any,
            pixelsPerColumn: Any, elementStrides: In, interleave: OneOf(&[0, 1, 2]), swizzle: Any,
            l2Promotion: OneOf(&[0, 1, 2, 3]), oobFill: OneOf(&[0, 1]),
        }
        cuTensorMapReplaceAddress(Initialised) { tensorMap: Out, globalAddress: Any }
    }
}
