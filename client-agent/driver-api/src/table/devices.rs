//! Initialisation, versions, errors, devices, contexts.

use super::rows;
use crate::role::Object::Context as ContextObject;
use crate::role::ParameterRole::{
    Any, ContextFlags, Count, Device, Flags, Handle, HandleIf, In, InIf, OneOf, Out, OutIf, Size,
};

/// Wait policy of a thread, mapped memory, local memory, dumps, ordered copies.
const CONTEXT_FLAGS: u64 = 0xff;
/// None, shared, L1, equal.
const CACHE: &[i64] = &[0, 1, 2, 3];
/// The default, four bytes, eight bytes.
const BANKS: &[i64] = &[0, 1, 2];

rows! { ROWS:
    "Initialization" {
        cuInit(Any) { Flags: Flags(0) }
    }
    "Version Management" {
        cuDriverGetVersion(Any) { driverVersion: Out }
    }
    "Error Handling" {
        cuGetErrorName(Any) { error: Any, pStr: Out }
        cuGetErrorString(Any) { error: Any, pStr: Out }
    }
    "Driver Entry Point Access" {
        cuGetProcAddress(Any) { symbol: In, pfn: Out, driverVersion: Any, flags: OneOf(&[0, 1, 2]) }
        cuGetProcAddress_v2(Any) {
            symbol: In, pfn: Out, driverVersion: Any, flags: OneOf(&[0, 1, 2]), symbolStatus: OutIf,
        }
        cuGetExportTable(Any) { ppExportTable: Out, pExportTableId: In }
    }
    "Profiler Control" {
        cuProfilerStart(Context) {}
        cuProfilerStop(Context) {}
    }
    "Device Management" {
        cuDeviceGetCount(Initialised) { count: Out }
        cuDeviceGet(Initialised) { device: Out, ordinal: Device }
        cuDeviceGetName(Initialised) { name: Out, len: Size, dev: Device }
        cuDeviceGetUuid(Initialised) { uuid: Out, dev: Device }
        cuDeviceGetUuid_v2(Initialised) { uuid: Out, dev: Device }
        cuDeviceGetLuid(Initialised) { luid: Any, deviceNodeMask: Any, dev: Device }
        cuDeviceTotalMem_v2(Initialised) { bytes: Out, dev: Device }
        cuDeviceGetAttribute(Initialised) { pi: Out, attrib: Any, dev: Device }
        cuDeviceComputeCapability(Initialised) { major: Out, minor: Out, dev: Device }
        cuDeviceGetTexture1DLinearMaxWidth(Initialised) {
            maxWidthInElements: Out, format: Any, numChannels: OneOf(&[1, 2, 4]), dev: Device,
        }
        cuDeviceGetDefaultMemPool(Initialised) { pool_out: Out, dev: Device }
        cuDeviceGetMemPool(Initialised) { pool: Out, dev: Device }
        cuDeviceSetMemPool(Initialised) { dev: Device, pool: Handle(crate::role::Object::Pool) }
        cuDeviceGetExecAffinitySupport(Initialised) { pi: Out, r#type: OneOf(&[0]), dev: Device }
        cuDeviceGetPCIBusId(Initialised) { pciBusId: Out, len: Size, dev: Device }
        cuDeviceGetByPCIBusId(Initialised) { dev: Out, pciBusId: In }
    }
    "Peer Context Memory Access" {
        cuDeviceCanAccessPeer(Initialised) { canAccessPeer: Out, dev: Device, peerDev: Device }
        cuDeviceGetP2PAttribute(Initialised) {
            value: Out, attrib: OneOf(&[1, 2, 3, 4, 5]), srcDevice: Device, dstDevice: Device,
        }
        cuCtxEnablePeerAccess(Context) { peerContext: Any, Flags: Flags(0) }
        cuCtxDisablePeerAccess(Context) { peerContext: Any }
    }
    "Primary Context Management" {
        cuDevicePrimaryCtxRetain(Initialised) { pctx: Out, dev: Device }
        cuDevicePrimaryCtxRelease(Initialised) { dev: Device }
        cuDevicePrimaryCtxRelease_v2(Initialised) { dev: Device }
        cuDevicePrimaryCtxReset(Initialised) { dev: Device }
        cuDevicePrimaryCtxReset_v2(Initialised) { dev: Device }
        cuDevicePrimaryCtxSetFlags(Initialised) { dev: Device, flags: ContextFlags(CONTEXT_FLAGS) }
        cuDevicePrimaryCtxSetFlags_v2(Initialised) { dev: Device, flags: ContextFlags(CONTEXT_FLAGS) }
        cuDevicePrimaryCtxGetState(Initialised) { dev: Device, flags: Out, active: Out }
    }
    "Context Management" {
        cuCtxCreate(Initialised) { pctx: Out, flags: ContextFlags(CONTEXT_FLAGS), dev: Device }
        cuCtxCreate_v2(Initialised) { pctx: Out, flags: ContextFlags(CONTEXT_FLAGS), dev: Device }
        cuCtxCreate_v3(Initialised) {
            pctx: Out, paramsArray: InIf, numParams: Count, flags: ContextFlags(CONTEXT_FLAGS), dev: Device,
        }
        cuCtxCreate_v4(Initialised) {
            pctx: Out, ctxCreateParams: InIf, flags: ContextFlags(CONTEXT_FLAGS), dev: Device,
        }
        cuCtxDestroy(Initialised) { ctx: Handle(ContextObject) }
        cuCtxDestroy_v2(Initialised) { ctx: Handle(ContextObject) }
        cuCtxPushCurrent(Initialised) { ctx: Handle(ContextObject) }
        cuCtxPushCurrent_v2(Initialised) { ctx: Handle(ContextObject) }
        cuCtxPopCurrent(Context) { pctx: OutIf }
        cuCtxPopCurrent_v2(Context) { pctx: OutIf }
        cuCtxSetCurrent(Initialised) { ctx: HandleIf(ContextObject) }
        cuCtxGetCurrent(Initialised) { pctx: Out }
        cuCtxGetDevice(Context) { device: Out }
        cuCtxGetDevice_v2(Initialised) { device: Out, ctx: HandleIf(ContextObject) }
        cuCtxGetFlags(Context) { flags: Out }
        cuCtxSetFlags(Context) { flags: ContextFlags(CONTEXT_FLAGS) }
        cuCtxGetId(Initialised) { ctx: HandleIf(ContextObject), ctxId: Out }
        cuCtxSynchronize(Context) {}
        cuCtxSynchronize_v2(Initialised) { ctx: HandleIf(ContextObject) }
        cuCtxGetApiVersion(Initialised) { ctx: HandleIf(ContextObject), version: Out }
        cuCtxGetLimit(Context) { pvalue: Out, limit: Any }
        cuCtxSetLimit(Context) { limit: Any, value: Any }
        cuCtxGetCacheConfig(Context) { pconfig: Out }
        cuCtxSetCacheConfig(Context) { config: OneOf(CACHE) }
        cuCtxGetSharedMemConfig(Context) { pConfig: Out }
        cuCtxSetSharedMemConfig(Context) { config: OneOf(BANKS) }
        cuCtxGetStreamPriorityRange(Context) { leastPriority: OutIf, greatestPriority: OutIf }
        cuCtxResetPersistingL2Cache(Context) {}
    }
    "Context Management [DEPRECATED]" {
        cuCtxAttach(Context) { pctx: Out, flags: Flags(0) }
        cuCtxDetach(Initialised) { ctx: Handle(ContextObject) }
    }
}
