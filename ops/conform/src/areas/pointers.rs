//! Attributes of pointers.

use crate::check::Check;
use crate::codes::{INVALID_CONTEXT, INVALID_VALUE};
use crate::driver::{Argument as _, Word, words};
use crate::finding::ensure;

const POINTERS: &str = "Unified Addressing";
const PAGE: usize = 4096;

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = ("cuPointerGetAttribute", POINTERS);
    let device_is = |number: i32, what: &'static str, wanted: u32| {
        let claim = format!("device memory has {what} {wanted}");
        Check::new(of, claim, move |it| {
            let address = it.alloc(PAGE)?;
            let mut value = 0x5555_5555u32;
            it.ok(
                "cuPointerGetAttribute",
                words![&mut value, number, address + 8],
            )?;
            ensure!(value == wanted, "attribute {number} is {value}");
            Ok(())
        })
    };
    let refused = |number: i32, claim: &'static str| {
        Check::new(of, claim, move |it| {
            let address = it.alloc(PAGE)?;
            let mut value = [0u64; 8];
            it.expect(
                INVALID_VALUE,
                "cuPointerGetAttribute",
                words![&mut value, number, address],
            )
        })
    };
    vec![
        device_is(2, "the type", 2),
        device_is(8, "for \"is managed\"", 0),
        device_is(9, "the device", 0),
        device_is(13, "for \"is mapped\"", 1),
        refused(0, "number 0 is no attribute"),
        refused(-1, "a negative number is no attribute"),
        refused(9_999, "a number beyond the last is no attribute"),
        refused(4, "device memory has no host pointer"),
        Check::new(
            of,
            "the context of memory is the one that allocated it",
            |it| {
                let (address, mut context) = (it.alloc(PAGE)?, 0u64);
                it.ok("cuPointerGetAttribute", words![&mut context, 1i32, address])?;
                let current = it.made("cuCtxGetCurrent", words![])?;
                ensure!(context == current, "{context:#x}, not {current:#x}");
                Ok(())
            },
        ),
        Check::new(
            of,
            "memory of the host that CUDA does not know is refused",
            |it| {
                let (mut own, mut value) = ([0u64; 8], 0u32);
                it.expect(
                    INVALID_VALUE,
                    "cuPointerGetAttribute",
                    words![&mut value, 2i32, &mut own],
                )
            },
        ),
        Check::new(of, "ids of two allocations differ", |it| {
            let (mut one, mut other) = (0u64, 0u64);
            let addresses = (it.alloc(PAGE)?, it.alloc(PAGE)?);
            it.ok("cuPointerGetAttribute", words![&mut one, 7i32, addresses.0])?;
            it.ok(
                "cuPointerGetAttribute",
                words![&mut other, 7i32, addresses.1],
            )?;
            ensure!(one != other, "both are {one}");
            Ok(())
        }),
        Check::new(of, "start and size are the allocation's", |it| {
            let address = it.alloc(5_000)?;
            let (mut start, mut size) = (0u64, 0usize);
            it.ok(
                "cuPointerGetAttribute",
                words![&mut start, 11i32, address + 64],
            )?;
            it.ok(
                "cuPointerGetAttribute",
                words![&mut size, 12i32, address + 64],
            )?;
            ensure!(start == address && size >= 5_000, "{start:#x} and {size}");
            Ok(())
        }),
        Check::new(
            of,
            "page-locked memory has type 1 and a host pointer",
            |it| {
                let at = it.made("cuMemHostAlloc", words![PAGE, 0u32])?;
                let (mut kind, mut pointer) = (0u32, 0u64);
                let seen = it.ok("cuPointerGetAttribute", words![&mut kind, 2i32, at]);
                let also = it.ok("cuPointerGetAttribute", words![&mut pointer, 4i32, at]);
                it.ok("cuMemFreeHost", words![at])?;
                seen.and(also)?;
                ensure!(
                    kind == 1 && pointer == at,
                    "type {kind}, pointer {pointer:#x} of {at:#x}"
                );
                Ok(())
            },
        ),
        Check::new(
            ("cuPointerSetAttribute", POINTERS),
            "SYNC_MEMOPS is as it was set",
            |it| {
                let address = it.alloc(PAGE)?;
                let (one, mut value) = (1u32, 0u32);
                it.ok("cuPointerSetAttribute", words![&one, 6i32, address])?;
                it.ok("cuPointerGetAttribute", words![&mut value, 6i32, address])?;
                ensure!(value == 1, "{value}");
                Ok(())
            },
        ),
        Check::new(
            ("cuPointerGetAttributes", POINTERS),
            "of memory that CUDA does not know it succeeds with nothing",
            |it| {
                let mut own = [0u64; 8];
                let (mut kind, mut context) = (9u32, 9u64);
                let attributes = [2i32, 1];
                let places = [(&mut kind).word().0, (&mut context).word().0];
                it.ok(
                    "cuPointerGetAttributes",
                    words![2u32, &attributes, &places, &mut own],
                )?;
                ensure!(
                    kind == 0 && context == 0,
                    "type {kind}, context {context:#x}"
                );
                Ok(())
            },
        ),
        Check::new(
            of,
            "a variable of a module that was unloaded is no device memory",
            |it| {
                let module = it.fresh_module()?;
                let mut at = 0u64;
                it.ok(
                    "cuModuleGetGlobal_v2",
                    words![&mut at, Word::NULL, module, c"counter"],
                )?;
                it.ok("cuModuleUnload", words![module])?;
                let mut kind = 0u32;
                it.expect(
                    INVALID_VALUE,
                    "cuPointerGetAttribute",
                    words![&mut kind, 2i32, at],
                )
            },
        ),
        Check::new(of, "memory that was freed is refused", |it| {
            let address = it.made("cuMemAlloc_v2", words![PAGE])?;
            it.ok("cuMemFree_v2", words![address])?;
            let mut kind = 0u32;
            let seen = it.code("cuPointerGetAttribute", words![&mut kind, 2i32, address])?;
            ensure!(matches!(seen.0, INVALID_VALUE | INVALID_CONTEXT), "{seen}");
            Ok(())
        }),
    ]
}
