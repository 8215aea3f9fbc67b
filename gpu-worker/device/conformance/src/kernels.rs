//! The kernels that the suite runs, and the ops around them.

use bus_schemas::{Launch, ModuleHash, Op};
use device::Device;

/// Adds 1 to each of `n` 32-bit words; the second entry stores out of bounds of any allocation.
pub(crate) const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64

.visible .entry increment(.param .u64 data, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r6, [%rd3];
    add.s32 %r6, %r6, 1;
    st.global.u32 [%rd3], %r6;
done:
    ret;
}

.visible .entry stray(.param .u64 data)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}
";

pub(crate) fn launch(function: u32, threads: u32) -> Op {
    let grid = [threads.div_ceil(64), 1, 1];
    Op::Launch(Launch {
        module: 0,
        function,
        grid,
        block: [64, 1, 1],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    })
}

/// An op without bytes of its own.
pub(crate) type Bare = (Op, &'static [u8]);

pub(crate) fn load(hash: ModuleHash) -> Bare {
    (Op::LoadModule { slot: 0, hash }, &[])
}

pub(crate) fn alloc(address: u64, bytes: u64) -> Bare {
    (Op::Alloc { address, bytes }, &[])
}

pub(crate) fn free(address: u64) -> Bare {
    (Op::Free { address }, &[])
}

/// A copy to the host.
pub(crate) fn copy_out(address: u64, bytes: u64) -> Bare {
    (Op::CopyOut { address, bytes }, &[])
}

/// A copy on the device.
pub(crate) fn copy(to: u64, from: u64, bytes: u64) -> Bare {
    (Op::Copy { to, from, bytes }, &[])
}

/// A fill of `count` values of `width` bytes.
pub(crate) fn set(address: u64, count: u64, value: u32, width: u8) -> Bare {
    let set = Op::Set {
        address,
        count,
        value,
        width,
    };
    (set, &[])
}

/// A copy from the host: of the payload's bytes, or of a transfer's.
pub(crate) fn copy_in(address: u64, bytes: u64, transfer: u64) -> Op {
    Op::CopyIn {
        address,
        bytes,
        transfer,
    }
}

pub(crate) fn increment_params(address: u64, n: u32) -> Vec<u8> {
    [&address.to_le_bytes()[..], &n.to_le_bytes()[..]].concat()
}

/// True if a kernel's fault ends only its session. On a GPU it ends the context, and all sessions with it.
pub(crate) fn survives_kernels(device: &dyn Device) -> bool {
    device.info().properties.kind != "cuda"
}
