//! Attributes of features that are refused: 0, whatever the GPU's own driver says. Programs choose
//! their paths by them, and a refused feature has to be found out before it is used.

/// Attributes of one feature, which is refused.
struct Refused {
    numbers: &'static [i32],
    /// Their names, without the common beginning.
    #[cfg(test)]
    names: &'static [&'static str],
    #[cfg(test)]
    why: &'static str,
    #[cfg(test)]
    proof: Proof,
}

/// The way in which a test sees that a feature is refused.
#[cfg(test)]
enum Proof {
    /// None of these functions is supported.
    Functions(&'static [&'static str]),
    /// This returns true.
    Trial(fn() -> bool),
    /// It lies in how memory and devices are reached here; there is nothing to call.
    Nature,
}

#[cfg(test)]
macro_rules! proof {
    (functions [$($function:ident)+]) => { Proof::Functions(&[$(stringify!($function)),+]) };
    (trial [$trial:ident]) => { Proof::Trial(trials::$trial) };
    (nature) => { Proof::Nature };
}

macro_rules! refused {
    ($($why:literal, $kind:ident $([$($by:ident)+])?: $($number:literal $name:ident),+;)+) => {
        /// All of them, feature by feature.
        static REFUSED: &[Refused] = &[$(Refused {
            numbers: &[$($number),+],
            #[cfg(test)]
            names: &[$(stringify!($name)),+],
            #[cfg(test)]
            why: $why,
            #[cfg(test)]
            proof: proof!($kind $([$($by)+])?),
        }),+];
    };
}

refused! {
    "kernels see host and managed memory as it was before the launch", nature:
        88 PAGEABLE_MEMORY_ACCESS, 89 CONCURRENT_MANAGED_ACCESS, 91 CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        100 PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 101 DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;
    "atomics of kernels and of the host do not meet", functions [cuDeviceGetHostAtomicCapabilities]:
        86 HOST_NATIVE_ATOMIC_SUPPORTED, 147 ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED;
    "registered memory is written back", nature: 113 READ_ONLY_HOST_REGISTER_SUPPORTED;
    "streams neither write words nor wait for them", functions [
        cuStreamWriteValue32 cuStreamWriteValue32_v2 cuStreamWriteValue64 cuStreamWriteValue64_v2
        cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWaitValue64 cuStreamWaitValue64_v2
        cuStreamBatchMemOp cuStreamBatchMemOp_v2
    ]:
        92 CAN_USE_STREAM_MEM_OPS_V1, 93 CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 94 CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
        98 CAN_FLUSH_REMOTE_WRITES, 122 CAN_USE_64_BIT_STREAM_MEM_OPS, 123 CAN_USE_STREAM_WAIT_VALUE_NOR,
        148 ATOMIC_REDUCTION_SUPPORTED;
    "a launch is for one device", functions [cuLaunchCooperativeKernelMultiDevice]:
        96 COOPERATIVE_MULTI_DEVICE_LAUNCH;
    "a launch has at most the shared memory of attribute 97", nature:
        150 MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK;
    "memory is exported as a file descriptor only", trial [handles]:
        104 HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, 105 HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED,
        128 HANDLE_TYPE_FABRIC_SUPPORTED, 143 HOST_NUMA_MULTINODE_IPC_SUPPORTED;
    "pools are not exported", functions [
        cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle cuMemPoolExportPointer
        cuMemPoolImportPointer
    ]: 119 MEMPOOL_SUPPORTED_HANDLE_TYPES;
    "memory that is mapped or pooled lies on a device", nature:
        141 HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 142 HOST_NUMA_MEMORY_POOLS_SUPPORTED,
        144 HOST_MEMORY_POOLS_SUPPORTED, 145 HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    "no memory is compressed", nature: 107 GENERIC_COMPRESSION_SUPPORTED;
    "no memory is decompressed", functions [cuMemBatchDecompressAsync]:
        136 MEM_DECOMPRESS_ALGORITHM_MASK, 137 MEM_DECOMPRESS_MAXIMUM_LENGTH;
    "what is to stay in the cache is a hint without effect", nature:
        108 MAX_PERSISTING_L2_CACHE_SIZE, 109 MAX_ACCESS_POLICY_WINDOW_SIZE;
    "no other hardware reaches the memory", functions [cuFlushGPUDirectRDMAWrites cuMemGetHandleForAddressRange]:
        110 GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 116 GPU_DIRECT_RDMA_SUPPORTED,
        117 GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 118 GPU_DIRECT_RDMA_WRITES_ORDERING, 124 DMA_BUF_SUPPORTED,
        146 HOST_ALLOC_DMA_BUF_SUPPORTED, 152 DMA_BUF_MMAP_SUPPORTED,
        161 GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED;
    "devices do not reach one another", functions [cuMulticastCreate cuMulticastAddDevice]:
        132 MULTICAST_SUPPORTED;
    "there are no endpoints", functions [cuLogicalEndpointCreate cuLogicalEndpointImport]:
        153 LOGICAL_ENDPOINT_UNICAST_SUPPORTED, 154 LOGICAL_ENDPOINT_MULTICAST_SUPPORTED,
        155 LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED,
        156 LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED,
        158 LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES;
    "nothing is shared with graphics", functions [
        cuImportExternalSemaphore cuImportExternalMemory cuStreamBeginCaptureToCig
    ]:
        114 TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 135 D3D12_CIG_SUPPORTED, 138 VULKAN_CIG_SUPPORTED,
        151 D3D12_CIG_STREAMS_SUPPORTED;
    "arrays are whole in memory when they are made", trial [sparse_arrays]:
        112 SPARSE_CUDA_ARRAY_SUPPORTED, 121 DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED;
    "there are no cubemaps", trial [cubemaps]:
        52 MAXIMUM_TEXTURECUBEMAP_WIDTH, 53 MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
        54 MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 66 MAXIMUM_SURFACECUBEMAP_WIDTH,
        67 MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 68 MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS;
    "there are no mipmaps", trial [mipmaps]:
        73 MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 74 MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT,
        77 MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH;
    "a function has an address on each device", functions [cuLibraryGetUnifiedFunction]:
        129 UNIFIED_FUNCTION_POINTERS;
}

/// True if an attribute is of a feature that is refused.
pub(super) fn is_refused(number: i32) -> bool {
    REFUSED.iter().any(|it| it.numbers.contains(&number))
}

/// Features that a test asks for.
#[cfg(test)]
mod trials {
    use crate::array::{self, CUBEMAP, DEFERRED, SPARSE};
    use crate::physical::SHARED;

    /// The handles of Windows, and of a fabric, by `CUmemAllocationHandleType`.
    pub(super) fn handles() -> bool {
        [2, 4, 8].iter().all(|kind| SHARED & kind == 0)
    }

    pub(super) fn sparse_arrays() -> bool {
        array::refuses(SPARSE) && array::refuses(DEFERRED)
    }

    pub(super) fn cubemaps() -> bool {
        array::refuses(CUBEMAP)
    }

    pub(super) fn mipmaps() -> bool {
        array::refuses_mipmaps()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::symbol::SYMBOLS;

    #[test]
    fn what_is_refused_is_refused_and_an_attribute_is_named_once() {
        let mut seen = BTreeSet::new();
        for row in REFUSED {
            assert_eq!(row.numbers.len(), row.names.len(), "{}", row.why);
            for number in row.numbers {
                assert!(seen.insert(number), "{number} is there twice");
            }
            match row.proof {
                Proof::Nature => {}
                Proof::Trial(refuses) => assert!(refuses(), "{}", row.why),
                Proof::Functions(names) => names.iter().for_each(|name| {
                    let symbol = SYMBOLS.iter().find(|symbol| symbol.name == *name);
                    let works = symbol.expect("a symbol").implemented;
                    assert!(!works, "{name} works: is it still true that {}?", row.why);
                }),
            }
        }
    }

    /// Checks `docs/reference/cuda-attributes.md`; with `WARPLOOM_BLESS` set, it is written.
    #[test]
    fn the_page_is_up_to_date() {
        let mut page = String::from(
            "# Attributes of refused features\n\n\
             `cuDeviceGetAttribute` answers 0 for them, whatever NVIDIA's driver says of the worker's GPU, so \
             programs\nchoose another path. The table is written by a test of `client-agent/libcuda`, which also \
             sees that each\nfeature is refused. An attribute leaves the table when its feature works.\n\n\
             | attribute | `CU_DEVICE_ATTRIBUTE_…` | why |\n| ---: | --- | --- |\n",
        );
        let mut rows: Vec<_> = REFUSED
            .iter()
            .flat_map(|it| {
                it.numbers
                    .iter()
                    .zip(it.names)
                    .map(move |row| (row, it.why))
            })
            .collect();
        rows.sort();
        for ((number, name), why) in rows {
            page += &format!("| {number} | `{name}` | {why} |\n");
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = root.join("docs/reference/cuda-attributes.md");
        if std::env::var_os("WARPLOOM_BLESS").is_some() {
            std::fs::write(&path, &page).expect("it is written");
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == page,
            "with WARPLOOM_BLESS=1 this test writes docs/reference/cuda-attributes.md"
        );
    }
}
