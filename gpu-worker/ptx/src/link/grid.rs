//! The device runtime's functions for barriers of a whole grid, which programs link against.
//!
//! Every block of a grid adds to one word: the first block adds a number and each other block 1, so that all
//! together add 2³¹. So the highest bit changes when the last block has come, and the word needs no reset,
//! whatever grid comes next. Blocks that wait spin; the launch must ensure that all of them run at a time.

use crate::{Linkage, ParsedModule};

/// The name of the image in errors.
pub(super) const NAME: &str = "barriers of a grid";

/// Functions that it defines.
const FUNCTIONS: [&str; 3] = [
    "cudaCGGetIntrinsicHandle",
    "cudaCGSynchronize",
    "cudaCGSynchronizeGrid",
];

/// Handle 1 is the grid; there are no other groups.
pub(super) const IMAGE: &str = "
.version 6.0
.target sm_60
.address_size 64

.global .align 4 .u32 warploom_grid_arrived;

.weak .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .pred %grid;
    .reg .b32 %scope;
    .reg .b64 %handle;
    ld.param.u32 %scope, [scope];
    setp.eq.u32 %grid, %scope, 1;
    selp.u64 %handle, 1, 0, %grid;
    st.param.b64 [handle], %handle;
    ret;
}

.weak .func (.param .b32 status) cudaCGSynchronizeGrid(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %other, %first, %wait;
    .reg .b32 %at, %axis, %count, %add, %old, %now, %status;
    .reg .b64 %handle;
    ld.param.u64 %handle, [handle];
    mov.u32 %status, 1;
    setp.ne.u64 %other, %handle, 1;
    @%other bra DONE;
    mov.u32 %status, 0;
    bar.sync 0;
    mov.u32 %at, %tid.x;
    mov.u32 %axis, %tid.y;
    or.b32 %at, %at, %axis;
    mov.u32 %axis, %tid.z;
    or.b32 %at, %at, %axis;
    setp.ne.u32 %other, %at, 0;
    @%other bra HERE;
    mov.u32 %count, %nctaid.x;
    mov.u32 %axis, %nctaid.y;
    mul.lo.u32 %count, %count, %axis;
    mov.u32 %axis, %nctaid.z;
    mul.lo.u32 %count, %count, %axis;
    mov.u32 %at, %ctaid.x;
    mov.u32 %axis, %ctaid.y;
    or.b32 %at, %at, %axis;
    mov.u32 %axis, %ctaid.z;
    or.b32 %at, %at, %axis;
    setp.eq.u32 %first, %at, 0;
    sub.u32 %add, 0x80000001, %count;
    selp.u32 %add, %add, 1, %first;
    membar.gl;
    atom.global.add.u32 %old, [warploom_grid_arrived], %add;
AGAIN:
    ld.volatile.global.u32 %now, [warploom_grid_arrived];
    xor.b32 %now, %now, %old;
    setp.ge.s32 %wait, %now, 0;
    @%wait bra AGAIN;
    membar.gl;
HERE:
    bar.sync 0;
DONE:
    st.param.b32 [status], %status;
    ret;
}

.weak .func (.param .b32 status) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .b32 %value;
    .reg .b64 %handle;
    .param .b64 to;
    .param .b32 how;
    .param .b32 came;
    ld.param.u64 %handle, [handle];
    st.param.b64 [to], %handle;
    ld.param.u32 %value, [flags];
    st.param.b32 [how], %value;
    call (came), cudaCGSynchronizeGrid, (to, how);
    ld.param.b32 %value, [came];
    st.param.b32 [status], %value;
    ret;
}
";

/// True if an image leaves such a function to be defined elsewhere.
pub(super) fn is_needed_by(module: &ParsedModule<'_>) -> bool {
    let mut functions = module.functions.iter();
    functions.any(|it| it.linkage == Linkage::Extern && FUNCTIONS.contains(&it.name))
}
