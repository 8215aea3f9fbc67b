//! The conformance suite of devices: what every implementation of [`device::Device`] must do. Its tests
//! call [`run`]; nothing that is shipped depends on this crate.

mod answers;
mod kernels;
mod program;
mod sharing;

use std::sync::Arc;

use bus_schemas::{Code, DeviceProperties, ModuleHash, Op, Parcel, SessionId};
use device::Device;
use kernels::{PTX, increment_params, launch};

pub use program::{Program, complete};

type OpList<'a> = Vec<(Op, &'a [u8])>;

/// What a program asks a device about before it does anything.
fn described(device: &DeviceProperties, capacity: u64) {
    assert!(
        !device.name.is_empty() && device.memory >= capacity,
        "{device:?}"
    );
    assert!(["cpu", "cuda"].contains(&&device.kind[..]), "{device:?}");
    assert!(
        device.compute >= (5, 0) && device.driver >= 11_000,
        "{device:?}"
    );
    assert!(device.ptx >= (7, 0) && device.target >= 75, "{device:?}");
    assert!(device.sms > 0 && device.warp_size == 32, "{device:?}");
    let [x, y, z] = device.block_dim;
    let threads = [x, y, device.sm_threads].map(|most| most >= device.block_threads);
    assert!(device.block_threads >= 512 && z > 0, "{device:?}");
    assert!(threads == [true; 3] && device.sm_blocks > 0, "{device:?}");
    assert!(
        device.grid_dim.iter().all(|most| *most >= 65_535),
        "{device:?}"
    );
    assert_eq!(device.block_shared, 48 << 10, "{device:?}");
    assert!(
        device.block_shared_optin >= device.block_shared,
        "{device:?}"
    );
    assert!(device.sm_shared >= device.block_shared_optin, "{device:?}");
    assert!(device.block_registers >= 32 << 10, "{device:?}");
    assert!(device.sm_registers >= device.block_registers, "{device:?}");
}

/// Runs the whole suite on a fresh device of less than 14 GiB capacity.
///
/// # Panics
/// When the device does not conform, saying where.
pub fn run(device: &mut dyn Device) {
    let capacity = device.info().capacity;
    assert!(capacity > 0 && capacity < 14 << 30, "{capacity}");
    described(&device.info().properties, capacity);
    let hash = ModuleHash::of(PTX.as_bytes());
    let info = device
        .prepare(hash, PTX.as_bytes())
        .expect("valid PTX is prepared");
    let names: Vec<_> = info
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f.param_bytes))
        .collect();
    assert_eq!(names, [("increment", 12), ("stray", 8)]);
    assert_eq!(
        device.prepare(hash, PTX.as_bytes()).as_ref(),
        Ok(&info),
        "twice is once"
    );
    bad_images(device);
    let mut one = Program::new(1);
    let mut two = Program::new(2);
    for program in [&one, &two] {
        device
            .open(program.session(), program.window(), None)
            .expect("free windows open");
    }
    assert!(
        device.open(SessionId(9), one.window(), None).is_err(),
        "windows do not overlap"
    );
    computes(device, &mut one, hash);
    answers::reports_times(device, &mut one, hash);
    answers::reports_symbols(device, [&mut one, &mut two]);
    answers::misses_symbols(device);
    staged(device, &mut one);
    faults(device, &mut two, &one, hash);
    computes(device, &mut one, hash);
    device.close(one.session());
    device.close(two.session());
    device.close(two.session());
    reopened(device, hash);
    sharing::keeps_writes_apart(device, hash);
    assert!(!device.is_busy());
}

fn bad_images(device: &mut dyn Device) {
    let text = PTX.replace("mad.lo.s32", "mad.lo.q32");
    let failure = device.prepare(ModuleHash::of(text.as_bytes()), text.as_bytes());
    let failure = failure.expect_err("an unknown type is no PTX");
    assert_eq!(failure.code, Code::BadModule);
    let cubin = b"\x7fELF\x02\x01\x01\x33 not a real one";
    let failure = device
        .prepare(ModuleHash::of(cubin), cubin)
        .expect_err("a broken cubin");
    assert!(
        matches!(failure.code, Code::NoBinary | Code::BadModule),
        "{failure}"
    );
}

fn computes(device: &mut dyn Device, program: &mut Program, hash: ModuleHash) {
    let address = program.window().base;
    let n = 1_000_u32;
    let input: Vec<u8> = (0..n).flat_map(u32::to_le_bytes).collect();
    let params = increment_params(address, n);
    let slice = program.slice(&[
        (Op::LoadModule { slot: 0, hash }, &[]),
        (
            Op::Alloc {
                address,
                bytes: 8_000,
            },
            &[],
        ),
        (
            Op::CopyIn {
                address,
                bytes: 4_000,
                transfer: 0,
            },
            &input,
        ),
        (launch(0, n), &params),
        (
            Op::Copy {
                to: address + 4_000,
                from: address,
                bytes: 4_000,
            },
            &[],
        ),
        (launch(0, n), &params),
        (
            Op::CopyOut {
                address,
                bytes: 4_000,
            },
            &[],
        ),
        (
            Op::CopyOut {
                address: address + 4_000,
                bytes: 4_000,
            },
            &[],
        ),
        (
            Op::Set {
                address,
                count: 500,
                value: 0x0102_0304,
                width: 4,
            },
            &[],
        ),
        (
            Op::CopyOut {
                address: address + 1_996,
                bytes: 8,
            },
            &[],
        ),
        (Op::Sync, &[]),
    ]);
    let first = slice.first;
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    assert_eq!(done.launches, 2);
    assert!(done.resident >= 8_000, "{}", done.resident);
    assert_eq!(
        done.kernels.iter().map(|kernel| kernel.count).sum::<u64>(),
        2
    );
    let plus = |by: u32| {
        (0..n)
            .flat_map(|i| (i + by).to_le_bytes())
            .collect::<Vec<_>>()
    };
    let ops: Vec<_> = done
        .results
        .iter()
        .map(|result| result.op - first)
        .collect();
    assert_eq!(ops, [6, 7, 9, 10]);
    assert_eq!(done.results[0].copied(), Some(plus(2)));
    assert_eq!(done.results[1].copied(), Some(plus(1)));
    assert_eq!(
        done.results[2].copied().as_deref(),
        Some(&[4, 3, 2, 1, 246, 1, 0, 0][..])
    );
    assert_eq!(done.results[3].bytes, None);
    let freed = program.slice(&[
        (Op::Free { address }, &[]),
        (Op::UnloadModule { slot: 0 }, &[]),
    ]);
    let freed = complete(device, freed);
    assert_eq!((freed.fault, freed.resident), (None, 0));
}

fn staged(device: &mut dyn Device, program: &mut Program) {
    let address = program.window().base + (1 << 30);
    let bytes = 1_u64 << 20;
    let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    let mut slice = program.slice(&[
        (Op::Alloc { address, bytes }, &[]),
        (
            Op::CopyIn {
                address,
                bytes,
                transfer: 3,
            },
            &[],
        ),
        (Op::CopyOut { address, bytes }, &[]),
        (Op::Free { address }, &[]),
    ]);
    slice.transfers.push((3, Arc::new(Parcel::from(&data[..]))));
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    assert_eq!(done.results[0].copied(), Some(data));
}

/// Each mistake is its session's; one other session holds memory that must stay unread.
fn faults(device: &mut dyn Device, program: &mut Program, other: &Program, hash: ModuleHash) {
    let address = program.window().base;
    let foreign = other.window().base.to_le_bytes();
    let far = (program.window().base + (1 << 32)).to_le_bytes();
    let odd = (address + 2).to_le_bytes();
    let load = (Op::LoadModule { slot: 0, hash }, &[][..]);
    let alloc = (
        Op::Alloc {
            address,
            bytes: 4_096,
        },
        &[][..],
    );
    let huge = device
        .info()
        .capacity
        .saturating_mul(2)
        .min(program.window().size);
    let cases: Vec<(OpList<'_>, Code)> = vec![
        (
            vec![load, alloc, (launch(1, 1), &foreign)],
            Code::IllegalAddress,
        ),
        (
            vec![load, alloc, (launch(1, 1), &far)],
            Code::IllegalAddress,
        ),
        (vec![load, alloc, (launch(1, 1), &odd)], Code::Misaligned),
        (vec![load, alloc, (launch(1, 1), &[0; 4])], Code::BadLaunch),
        (vec![load, (launch(7, 1), &foreign)], Code::UnknownFunction),
        (vec![(launch(0, 1), &foreign)], Code::UnknownFunction),
        (vec![alloc, alloc], Code::BadAddress),
        (vec![(Op::Free { address }, &[])], Code::BadAddress),
        (
            vec![(
                Op::Alloc {
                    address: other.window().base,
                    bytes: 16,
                },
                &[],
            )],
            Code::BadAddress,
        ),
        (
            vec![(Op::CopyOut { address, bytes: 16 }, &[])],
            Code::IllegalAddress,
        ),
        (
            vec![
                alloc,
                (
                    Op::CopyOut {
                        address: address + 4_090,
                        bytes: 16,
                    },
                    &[],
                ),
            ],
            Code::IllegalAddress,
        ),
        (
            vec![
                alloc,
                (
                    Op::Copy {
                        to: address,
                        from: other.window().base,
                        bytes: 16,
                    },
                    &[],
                ),
            ],
            Code::IllegalAddress,
        ),
        (
            vec![(
                Op::Alloc {
                    address,
                    bytes: huge,
                },
                &[],
            )],
            Code::OutOfMemory,
        ),
    ];
    for (index, (mut ops, code)) in cases.into_iter().enumerate() {
        ops.push((Op::Sync, &[]));
        let slice = program.slice(&ops);
        let last = slice.first + ops.len() as u64 - 1;
        let done = complete(device, slice);
        let (op, failure) = done
            .fault
            .unwrap_or_else(|| panic!("case {index} has no fault"));
        assert_eq!(failure.code, code, "case {index}: {failure}");
        assert_eq!(op, last - 1, "case {index}: {failure}");
        assert!(
            done.results.is_empty(),
            "case {index}: nothing after the fault runs"
        );
        device.close(program.session());
        device
            .open(program.session(), program.window(), None)
            .expect("closed windows are free");
    }
}

/// A new session in an old window sees nothing of the old one.
fn reopened(device: &mut dyn Device, hash: ModuleHash) {
    let mut program = Program::new(1);
    device
        .open(program.session(), program.window(), None)
        .expect("closed windows are free");
    let address = program.window().base;
    let slice = program.slice(&[
        (Op::LoadModule { slot: 0, hash }, &[]),
        (
            Op::Alloc {
                address,
                bytes: 4_096,
            },
            &[],
        ),
        (
            Op::CopyOut {
                address,
                bytes: 4_096,
            },
            &[],
        ),
    ]);
    let done = complete(device, slice);
    assert_eq!(
        done.results[0].copied().as_deref(),
        Some(&[0; 4_096][..]),
        "memory is not leaked"
    );
    device.close(program.session());
}
