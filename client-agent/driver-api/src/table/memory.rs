//! Memory: allocation, copies, fills, arrays, virtual memory, pools, managed memory, pointers.

use super::rows;
use crate::role::Object::{
    Array, Context as ContextObject, Event, Mipmapped, Physical, Pool, Stream,
};
use crate::role::ParameterRole::{
    Address, Any, Count, Device, Flags, Handle, HandleIf, Host, In, List, OneOf, Out, OutIf, Size,
};

/// Portable, mapped, write-combined.
const HOST_ALLOC: u64 = 7;
/// Portable, mapped, I/O memory, read-only.
const HOST_REGISTER: u64 = 15;
/// Global, host; and single for functions that attach streams.
const ATTACH: &[i64] = &[1, 2, 4];
/// From "read mostly" to "no accessing device".
const ADVICE: &[i64] = &[1, 2, 3, 4, 5, 6];
/// `CU_MEM_HANDLE_TYPE_*` of one kind.
const SHARED: &[i64] = &[1, 2, 4, 8];

rows! { ROWS:
    "Memory Management" {
        cuMemGetInfo_v2(Context) { free: OutIf, total: OutIf }
        cuMemAlloc_v2(Context, Unsafe) { dptr: Out, bytesize: Size }
        cuMemAllocPitch_v2(Context, Unsafe) {
            dptr: Out, pPitch: Out, WidthInBytes: Size, Height: Size, ElementSizeBytes: OneOf(&[4, 8, 16]),
        }
        cuMemFree_v2(Initialised, Unsafe) { dptr: Address }
        cuMemGetAddressRange_v2(Initialised) { pbase: OutIf, psize: OutIf, dptr: Address }
        cuMemAllocHost(Context, Unsafe) { pp: Out, bytesize: Size }
        cuMemAllocHost_v2(Context, Unsafe) { pp: Out, bytesize: Size }
        cuMemFreeHost(Initialised, Unsafe) { p: Host }
        cuMemHostAlloc(Context, Unsafe) { pp: Out, bytesize: Size, Flags: Flags(HOST_ALLOC) }
        cuMemHostGetDevicePointer_v2(Context) { pdptr: Out, p: Host, Flags: Flags(0) }
        cuMemHostGetFlags(Initialised) { pFlags: Out, p: Host }
        cuMemAllocManaged(Context, Unsafe) { dptr: Out, bytesize: Size, flags: OneOf(&[1, 2]) }
        cuMemHostRegister(Context, Unsafe) { p: In, bytesize: Size, Flags: Flags(HOST_REGISTER) }
        cuMemHostRegister_v2(Context, Unsafe) { p: In, bytesize: Size, Flags: Flags(HOST_REGISTER) }
        cuMemHostUnregister(Initialised, Unsafe) { p: In }
        cuIpcGetEventHandle(Initialised) { pHandle: Out, event: Handle(Event) }
        cuIpcOpenEventHandle(Context) { phEvent: Out, handle: Any }
        cuIpcGetMemHandle(Initialised) { pHandle: Out, dptr: Address }
        cuIpcOpenMemHandle(Context) { pdptr: Out, handle: Any, Flags: Any }
        cuIpcOpenMemHandle_v2(Context) { pdptr: Out, handle: Any, Flags: Any }
        cuIpcCloseMemHandle(Initialised) { dptr: Address }
        cuMemcpy(Initialised, OnLegacy) { dst: Any, src: Any, ByteCount: Count }
        cuMemcpyPeer(Initialised, OnLegacy) {
            dstDevice: Any, dstContext: HandleIf(ContextObject), srcDevice: Any, srcContext: HandleIf(ContextObject),
            ByteCount: Count,
        }
        cuMemcpyHtoD_v2(Initialised, OnLegacy) { dstDevice: Address, srcHost: Any, ByteCount: Count }
        cuMemcpyDtoH_v2(Initialised, OnLegacy) { dstHost: Any, srcDevice: Address, ByteCount: Count }
        cuMemcpyDtoD_v2(Initialised, OnLegacy) { dstDevice: Address, srcDevice: Address, ByteCount: Count }
        cuMemcpyDtoA_v2(Initialised, OnLegacy) { dstArray: Handle(Array), dstOffset: Any, srcDevice: Address, ByteCount: Count }
        cuMemcpyAtoD_v2(Initialised, OnLegacy) { dstDevice: Address, srcArray: Handle(Array), srcOffset: Any, ByteCount: Count }
        cuMemcpyHtoA_v2(Initialised, OnLegacy) { dstArray: Handle(Array), dstOffset: Any, srcHost: Any, ByteCount: Count }
        cuMemcpyAtoH_v2(Initialised, OnLegacy) { dstHost: Any, srcArray: Handle(Array), srcOffset: Any, ByteCount: Count }
        cuMemcpyAtoA_v2(Initialised, OnLegacy) {
            dstArray: Handle(Array), dstOffset: Any, srcArray: Handle(Array), srcOffset: Any, ByteCount: Count,
        }
        cuMemcpy2D_v2(Initialised, OnLegacy) { pCopy: In }
        cuMemcpy2DUnaligned_v2(Initialised, OnLegacy) { pCopy: In }
        cuMemcpy3D_v2(Initialised, OnLegacy) { pCopy: In }
        cuMemcpy3DPeer(Initialised, OnLegacy) { pCopy: In }
        cuMemcpyAsync(Initialised) { dst: Any, src: Any, ByteCount: Count, hStream: HandleIf(Stream) }
        cuMemcpyPeerAsync(Initialised) {
            dstDevice: Any, dstContext: HandleIf(ContextObject), srcDevice: Any, srcContext: HandleIf(ContextObject),
            ByteCount: Count, hStream: HandleIf(Stream),
        }
        cuMemcpyHtoDAsync_v2(Initialised) { dstDevice: Address, srcHost: Any, ByteCount: Count, hStream: HandleIf(Stream) }
        cuMemcpyDtoHAsync_v2(Initialised) { dstHost: Any, srcDevice: Address, ByteCount: Count, hStream: HandleIf(Stream) }
        cuMemcpyDtoDAsync_v2(Initialised) {
            dstDevice: Address, srcDevice: Address, ByteCount: Count, hStream: HandleIf(Stream),
        }
        cuMemcpyHtoAAsync_v2(Initialised) {
            dstArray: Handle(Array), dstOffset: Any, srcHost: Any, ByteCount: Count, hStream: HandleIf(Stream),
        }
        cuMemcpyAtoHAsync_v2(Initialised) {
            dstHost: Any, srcArray: Handle(Array), srcOffset: Any, ByteCount: Count, hStream: HandleIf(Stream),
        }
        cuMemcpy2DAsync_v2(Initialised) { pCopy: In, hStream: HandleIf(Stream) }
        cuMemcpy3DAsync_v2(Initialised) { pCopy: In, hStream: HandleIf(Stream) }
        cuMemcpy3DPeerAsync(Initialised) { pCopy: In, hStream: HandleIf(Stream) }
        cuMemcpyBatchAsync(Initialised) {
            dsts: List, srcs: List, sizes: List, count: Count, attrs: Any, attrsIdxs: List, numAttrs: Count,
            failIdx: OutIf, hStream: HandleIf(Stream),
        }
        cuMemcpyBatchAsync_v2(Initialised) {
            dsts: List, srcs: List, sizes: List, count: Count, attrs: Any, attrsIdxs: List, numAttrs: Count,
            hStream: HandleIf(Stream),
        }
        cuMemsetD8_v2(Initialised, OnLegacy) { dstDevice: Address, uc: Any, N: Count }
        cuMemsetD16_v2(Initialised, OnLegacy) { dstDevice: Address, us: Any, N: Count }
        cuMemsetD32_v2(Initialised, OnLegacy) { dstDevice: Address, ui: Any, N: Count }
        cuMemsetD2D8_v2(Initialised, OnLegacy) { dstDevice: Address, dstPitch: Any, uc: Any, Width: Count, Height: Count }
        cuMemsetD2D16_v2(Initialised, OnLegacy) { dstDevice: Address, dstPitch: Any, us: Any, Width: Count, Height: Count }
        cuMemsetD2D32_v2(Initialised, OnLegacy) { dstDevice: Address, dstPitch: Any, ui: Any, Width: Count, Height: Count }
        cuMemsetD8Async(Initialised) { dstDevice: Address, uc: Any, N: Count, hStream: HandleIf(Stream) }
        cuMemsetD16Async(Initialised) { dstDevice: Address, us: Any, N: Count, hStream: HandleIf(Stream) }
        cuMemsetD32Async(Initialised) { dstDevice: Address, ui: Any, N: Count, hStream: HandleIf(Stream) }
        cuMemsetD2D8Async(Initialised) {
            dstDevice: Address, dstPitch: Any, uc: Any, Width: Count, Height: Count, hStream: HandleIf(Stream),
        }
        cuMemsetD2D16Async(Initialised) {
            dstDevice: Address, dstPitch: Any, us: Any, Width: Count, Height: Count, hStream: HandleIf(Stream),
        }
        cuMemsetD2D32Async(Initialised) {
            dstDevice: Address, dstPitch: Any, ui: Any, Width: Count, Height: Count, hStream: HandleIf(Stream),
        }
        cuArrayCreate_v2(Context, Unsafe) { pHandle: Out, pAllocateArray: In }
        cuArray3DCreate_v2(Context, Unsafe) { pHandle: Out, pAllocateArray: In }
        cuArrayGetDescriptor_v2(Initialised) { pArrayDescriptor: Out, hArray: Handle(Array) }
        cuArray3DGetDescriptor_v2(Initialised) { pArrayDescriptor: Out, hArray: Handle(Array) }
        cuArrayDestroy(Initialised, Unsafe) { hArray: Handle(Array) }
        cuMipmappedArrayCreate(Context, Unsafe) { pHandle: Out, pMipmappedArrayDesc: In, numMipmapLevels: Any }
        cuMipmappedArrayGetLevel(Initialised) { pLevelArray: Out, hMipmappedArray: Handle(Mipmapped), level: Any }
        cuMipmappedArrayDestroy(Initialised, Unsafe) { hMipmappedArray: Handle(Mipmapped) }
    }
    "Virtual Memory Management" {
        cuMemAddressReserve(Initialised) { ptr: Out, size: Size, alignment: Any, addr: Any, flags: Flags(0) }
        cuMemAddressFree(Initialised) { ptr: Address, size: Size }
        cuMemCreate(Initialised) { handle: Out, size: Size, prop: In, flags: Flags(0) }
        cuMemRelease(Initialised) { handle: Handle(Physical) }
        cuMemMap(Initialised) { ptr: Address, size: Size, offset: Any, handle: Handle(Physical), flags: Flags(0) }
        cuMemUnmap(Initialised) { ptr: Address, size: Size }
        cuMemSetAccess(Initialised) { ptr: Address, size: Size, desc: In, count: Size }
        cuMemGetAccess(Initialised) { flags: Out, location: In, ptr: Address }
        cuMemExportToShareableHandle(Initialised) {
            shareableHandle: Out, handle: Handle(Physical), handleType: OneOf(SHARED), flags: Flags(0),
        }
        cuMemImportFromShareableHandle(Initialised) { handle: Out, osHandle: Any, shHandleType: OneOf(SHARED) }
        cuMemGetAllocationGranularity(Initialised) { granularity: Out, prop: In, option: OneOf(&[0, 1]) }
        cuMemGetAllocationPropertiesFromHandle(Initialised) { prop: Out, handle: Handle(Physical) }
        cuMemRetainAllocationHandle(Initialised) { handle: Out, addr: Address }
    }
    "Stream Ordered Memory Allocator" {
        cuMemFreeAsync(Initialised) { dptr: Address, hStream: HandleIf(Stream) }
        cuMemAllocAsync(Initialised) { dptr: Out, bytesize: Count, hStream: HandleIf(Stream) }
        cuMemAllocFromPoolAsync(Initialised) {
            dptr: Out, bytesize: Count, pool: Handle(Pool), hStream: HandleIf(Stream),
        }
        cuMemPoolTrimTo(Initialised) { pool: Handle(Pool), minBytesToKeep: Any }
        cuMemPoolSetAttribute(Initialised) { pool: Handle(Pool), attr: Any, value: In }
        cuMemPoolGetAttribute(Initialised) { pool: Handle(Pool), attr: Any, value: Out }
        cuMemPoolSetAccess(Initialised) { pool: Handle(Pool), map: List, count: Count }
        cuMemPoolGetAccess(Initialised) { flags: Out, memPool: Handle(Pool), location: In }
        cuMemPoolCreate(Initialised) { pool: Out, poolProps: In }
        cuMemPoolDestroy(Initialised) { pool: Handle(Pool) }
        cuMemGetDefaultMemPool(Initialised) { pool_out: Out, location: In, r#type: Any }
        cuMemGetMemPool(Initialised) { pool: Out, location: In, r#type: Any }
        cuMemSetMemPool(Initialised) { location: In, r#type: Any, pool: Handle(Pool) }
    }
    "Unified Addressing" {
        cuPointerGetAttribute(Initialised) { data: Out, attribute: Any, ptr: Address }
        cuPointerGetAttributes(Initialised) { numAttributes: Size, attributes: In, data: In, ptr: Any }
        cuPointerSetAttribute(Initialised) { value: In, attribute: OneOf(&[6]), ptr: Address }
        cuMemPrefetchAsync(Initialised) { devPtr: Address, count: Size, dstDevice: Any, hStream: HandleIf(Stream) }
        cuMemPrefetchAsync_v2(Initialised) {
            devPtr: Address, count: Size, location: Any, flags: Flags(0), hStream: HandleIf(Stream),
        }
        cuMemAdvise(Initialised, Unsafe) { devPtr: Address, count: Size, advice: OneOf(ADVICE), device: Any }
        cuMemAdvise_v2(Initialised, Unsafe) { devPtr: Address, count: Size, advice: OneOf(ADVICE), location: Any }
        cuMemRangeGetAttribute(Initialised) { data: Out, dataSize: Size, attribute: Any, devPtr: Address, count: Size }
        cuMemRangeGetAttributes(Initialised) {
            data: In, dataSizes: In, attributes: In, numAttributes: Size, devPtr: Address, count: Size,
        }
    }
    "Graph Memory" {
        cuDeviceGraphMemTrim(Initialised) { device: Device }
        cuDeviceGetGraphMemAttribute(Initialised) { device: Device, attr: OneOf(&[0, 1, 2, 3]), value: Out }
    }
    "Stream Memory Attachment" {
        cuStreamAttachMemAsync(Initialised) {
            hStream: HandleIf(Stream), dptr: Address, length: Any, flags: OneOf(ATTACH),
        }
    }
}
