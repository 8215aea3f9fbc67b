//! The lane loops: one operation over the 32 lanes of a warp.
//!
//! Every kernel is compiled twice from the same source: for AVX2, FMA and F16C, and portably.
//! Decode chooses one of the two, once. A kernel computes all 32 lanes and stores those of the
//! mask. So every operation must be total: it must not trap on any bits.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use crate::decode::form::{Inst, Slot};
use crate::engine::context::Context;
use crate::lane_value::{Bits, FULL, Lane, Row};
use std::marker::PhantomData;

pub(crate) use crate::lane_value::LANES;

/// Function that runs an instruction for the lanes of a mask; false after a fault.
pub(crate) type Handler = unsafe fn(&mut Context<'_>, &Inst, u32) -> bool;

/// The instruction set that the lane loops use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The baseline of the target.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// The AVX2 lane loops, and native code for the operations that the generator supports.
    Native,
}

impl Isa {
    /// The best instruction set of this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            return if cfg!(unix) { Self::Native } else { Self::Avx2 };
        }
        Self::Portable
    }
}

/// One operation over a warp.
pub(crate) trait Kernel {
    /// Runs it. `SIMD` states that AVX2, FMA and F16C may be used.
    ///
    /// # Safety
    /// The context's register files hold every slot of the instruction.
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool;
}

/// # Safety
/// As [`Kernel::run`].
unsafe fn portable<K: Kernel>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
    // SAFETY: forwarded from the caller.
    unsafe { K::run::<false>(cx, inst, mask) }
}

/// # Safety
/// As [`Kernel::run`], on a machine with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<K: Kernel>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
    // SAFETY: forwarded from the caller.
    unsafe { K::run::<true>(cx, inst, mask) }
}

/// The compiled form of a kernel for an instruction set.
pub(crate) fn pick<K: Kernel>(isa: Isa) -> Handler {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Native => avx2::<K>,
        _ => portable::<K>,
    }
}

/// Reads a source's lanes.
///
/// # Safety
/// The slot is in the context's files, in the bank of `B`.
#[inline(always)]
pub(crate) unsafe fn source<'c, B: Bits>(cx: &Context<'_>, slot: Slot) -> &'c Row<B> {
    // SAFETY: the caller vouches for the slot; rows are aligned to 128 bytes.
    unsafe { &*cx.source_base::<B>(slot).cast::<Row<B>>() }
}

/// Stores the lanes of a mask.
///
/// # Safety
/// As [`source`], and the slot is not a constant.
#[inline(always)]
pub(crate) unsafe fn store<B: Bits>(cx: &mut Context<'_>, slot: Slot, mask: u32, row: &Row<B>) {
    // SAFETY: the caller vouches for the slot.
    let to = unsafe { &mut *cx.target_base::<B>(slot).cast::<Row<B>>() };
    if mask == FULL {
        *to = *row;
    } else {
        for lane in 0..LANES {
            let keep = to[lane];
            to[lane] = if mask >> lane & 1 != 0 {
                row[lane]
            } else {
                keep
            };
        }
    }
}

/// Turns rows of all-ones or zero into a mask.
#[inline(always)]
pub(crate) fn mask_of<const SIMD: bool>(row: &Row<u32>) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if SIMD {
        // SAFETY: `SIMD` states that AVX2 is available.
        return unsafe { movemask(row) };
    }
    let mut mask = 0;
    for (lane, bits) in row.iter().enumerate() {
        mask |= (bits & 1) << lane;
    }
    mask
}

/// # Safety
/// Needs AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn movemask(row: &Row<u32>) -> u32 {
    use std::arch::x86_64::{_mm256_loadu_ps, _mm256_movemask_ps};
    let mut mask = 0;
    for group in 0..4 {
        // SAFETY: eight lanes from 8 * group are within the row.
        let lanes = unsafe { _mm256_loadu_ps(row.as_ptr().add(8 * group).cast()) };
        mask |= (_mm256_movemask_ps(lanes) as u32) << (8 * group);
    }
    mask
}

/// An operation of one source.
pub(crate) trait Op1 {
    type A: Lane;
    type R: Lane;
    fn f(a: Self::A) -> Self::R;
}

/// An operation of two sources.
pub(crate) trait Op2 {
    type A: Lane;
    type B: Lane;
    type R: Lane;
    fn f(a: Self::A, b: Self::B) -> Self::R;
}

/// An operation of three sources.
pub(crate) trait Op3 {
    type A: Lane;
    type B: Lane;
    type C: Lane;
    type R: Lane;
    fn f(a: Self::A, b: Self::B, c: Self::C) -> Self::R;
}

/// Lane loop of one source.
pub(crate) struct Map1<O>(PhantomData<O>);
/// Lane loop of two sources.
pub(crate) struct Map2<O>(PhantomData<O>);
/// Lane loop of three sources.
pub(crate) struct Map3<O>(PhantomData<O>);

impl<O: Op1> Kernel for Map1<O> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<<O::A as Lane>::Bits>(cx, inst.slots[1]);
            let mut out = [<O::R as Lane>::Bits::default(); LANES];
            for lane in 0..LANES {
                out[lane] = O::f(O::A::of(a[lane])).bits();
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

impl<O: Op2> Kernel for Map2<O> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<<O::A as Lane>::Bits>(cx, inst.slots[1]);
            let b = source::<<O::B as Lane>::Bits>(cx, inst.slots[2]);
            let mut out = [<O::R as Lane>::Bits::default(); LANES];
            for lane in 0..LANES {
                out[lane] = O::f(O::A::of(a[lane]), O::B::of(b[lane])).bits();
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

impl<O: Op3> Kernel for Map3<O> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<<O::A as Lane>::Bits>(cx, inst.slots[1]);
            let b = source::<<O::B as Lane>::Bits>(cx, inst.slots[2]);
            let c = source::<<O::C as Lane>::Bits>(cx, inst.slots[3]);
            let mut out = [<O::R as Lane>::Bits::default(); LANES];
            for lane in 0..LANES {
                out[lane] = O::f(O::A::of(a[lane]), O::B::of(b[lane]), O::C::of(c[lane])).bits();
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// Chooses by the kind of an operation. `@how (arguments): Name …;` has the macro `how` make the
/// handlers of the operations named like their kinds. The remaining arms are those of a `match`.
macro_rules! by_kind {
    ($op:expr, $kind:ident; $(@$how:ident $args:tt: $($name:ident)+;)*
        $($pattern:pat $(if $guard:expr)? => $result:expr,)*) => {
        match $op {
            $($($kind::$name => $how! { $args $name },)+)*
            $($pattern $(if $guard)? => $result,)*
        }
    };
}
pub(crate) use by_kind;

/// The handler of an operation that needs no choice.
macro_rules! always {
    (($isa:expr, $map:ident) $op:ident) => {
        $crate::lane_loop::pick::<$map<$op>>($isa)
    };
}
pub(crate) use always;

/// Declares operations: `name<generics>(arguments) -> result = expression`.
macro_rules! ops {
    (1; $($name:ident $(<$g:ident: $bound:path>)? ($a:ident: $A:ty) -> $R:ty = $e:expr;)*) => {$(
        pub(crate) struct $name $(<$g>(std::marker::PhantomData<$g>))?;
        impl $(<$g: $bound>)? $crate::lane_loop::Op1 for $name $(<$g>)? {
            type A = $A;
            type R = $R;
            #[inline(always)]
            fn f($a: $A) -> $R { $e }
        }
    )*};
    (2; $($name:ident $(<$g:ident: $bound:path>)?
        ($a:ident: $A:ty, $b:ident: $B:ty) -> $R:ty = $e:expr;)*) => {$(
        pub(crate) struct $name $(<$g>(std::marker::PhantomData<$g>))?;
        impl $(<$g: $bound>)? $crate::lane_loop::Op2 for $name $(<$g>)? {
            type A = $A;
            type B = $B;
            type R = $R;
            #[inline(always)]
            fn f($a: $A, $b: $B) -> $R { $e }
        }
    )*};
    (3; $($name:ident $(<$g:ident: $bound:path>)?
        ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) -> $R:ty = $e:expr;)*) => {$(
        pub(crate) struct $name $(<$g>(std::marker::PhantomData<$g>))?;
        impl $(<$g: $bound>)? $crate::lane_loop::Op3 for $name $(<$g>)? {
            type A = $A;
            type B = $B;
            type C = $C;
            type R = $R;
            #[inline(always)]
            fn f($a: $A, $b: $B, $c: $C) -> $R { $e }
        }
    )*};
}
pub(crate) use ops;
