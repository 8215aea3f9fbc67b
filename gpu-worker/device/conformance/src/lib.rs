//! The conformance suite of devices: the required behaviour of every implementation of [`device::Device`].
//! Its tests call [`run`]; no shipped crate depends on this one.

mod answers;
mod ended;
mod exports;
mod kernels;
mod machine_code;
mod maps;
mod mixed;
mod program;
mod sharing;
mod swapping;
mod wiped;

use std::sync::Arc;
use std::time::Duration;

use bus_schemas::{Code, DeviceProperties, ModuleHash, Op, SessionId};
use device::{CopyBytes, Device, PreparedModule};
use kernels::{
    Bare, PTX, alloc, copy, copy_in, copy_out, free, increment_params, launch, load, set,
    survives_kernels,
};

pub use ended::ends_by_a_fault;
pub use mixed::mixed;
pub use program::{TestProgram, complete, flat_launch};
pub use wiped::wiped;

/// Ops with their bytes.
type OpList = Vec<(Op, Vec<u8>)>;

/// Checks the description that a program asks a device for before it does anything.
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

/// Runs the whole suite on a fresh device of less than 14 GiB capacity, and at least 64 MiB. Its swap space,
/// if any, has 16 MiB, in memory and in a file, each of less than 12 MiB.
///
/// # Panics
/// When the device does not conform, with the place of the failure.
pub fn run(device: &mut dyn Device) {
    run_in_time(device, &std::thread::sleep);
}

/// As [`run`], for a device with a clock of its own, which `pass` moves on.
///
/// # Panics
/// As [`run`].
pub fn run_in_time(device: &mut dyn Device, pass: &dyn Fn(Duration)) {
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
    let again = device
        .prepare(hash, PTX.as_bytes())
        .expect("it is prepared again");
    assert_eq!(again.compiled, None, "a module is compiled once");
    let again = PreparedModule {
        compiled: info.compiled,
        ..again
    };
    assert_eq!(again, info, "twice is once");
    bad_images(device);
    let mut one = TestProgram::new(1);
    let mut two = TestProgram::new(2);
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
    answers::reports_times(device, &mut one, hash, pass);
    answers::reports_symbols(device, [&mut one, &mut two]);
    answers::misses_symbols(device);
    machine_code::runs_or_is_refused(device, &mut one);
    staged(device, &mut one);
    side_by_side(device, &mut one);
    faults(device, &mut two, &one, hash);
    computes(device, &mut one, hash);
    device.close(one.session());
    device.close(two.session());
    device.close(two.session());
    reopened(device, hash);
    sharing::keeps_writes_apart(device, hash);
    if device.exports().is_some() {
        exports::are_reached(device, hash);
    }
    if device.info().properties.maps_memory {
        maps::all(device, hash);
    }
    match device.swap_use() {
        None => swapping::is_refused(device),
        Some(_) => swapping::moves(device),
    }
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

fn computes(device: &mut dyn Device, program: &mut TestProgram, hash: ModuleHash) {
    let address = program.window().base;
    let n = 1_000_u32;
    let plus = |by: u32| -> Vec<u8> { (0..n).flat_map(|i| (i + by).to_le_bytes()).collect() };
    let (input, params) = (plus(0), increment_params(address, n));
    let slice = program.slice(&[
        load(hash),
        alloc(address, 8_000),
        (copy_in(address, 4_000, 0), &input),
        (launch(0, n), &params),
        copy(address + 4_000, address, 4_000),
        (launch(0, n), &params),
        copy_out(address, 4_000),
        copy_out(address + 4_000, 4_000),
        set(address, 500, 0x0102_0304, 4),
        copy_out(address + 1_996, 8),
        (Op::Sync, &[]),
    ]);
    let first = slice.first;
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    assert_eq!(done.launches, 2);
    assert!(done.resident >= 8_000, "{}", done.resident);
    let counted = done.kernels.iter().map(|kernel| kernel.count);
    assert_eq!(counted.sum::<u64>(), 2);
    let ops = done.results.iter().map(|result| result.op - first);
    assert_eq!(ops.collect::<Vec<_>>(), [6, 7, 9, 10]);
    let bytes: Vec<_> = done.results.iter().map(|result| result.copied()).collect();
    let set = vec![4, 3, 2, 1, 246, 1, 0, 0];
    assert_eq!(bytes[..3], [plus(2), plus(1), set].map(Some));
    assert_eq!(done.results[3].bytes, None);
    let freed = program.slice(&[free(address), (Op::UnloadModule { slot: 0 }, &[])]);
    let freed = complete(device, freed);
    assert_eq!((freed.fault, freed.resident), (None, 0));
}

fn staged(device: &mut dyn Device, program: &mut TestProgram) {
    let address = program.window().base + (1 << 30);
    let bytes = 1_u64 << 20;
    let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    let mut slice = program.slice(&[
        alloc(address, bytes),
        (copy_in(address, bytes, 3), &[]),
        copy_out(address, bytes),
        free(address),
    ]);
    slice
        .transfers
        .push((3, Arc::new(CopyBytes::from(&data[..]))));
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    assert_eq!(done.results[0].copied(), Some(data));
}

/// Allocations that lie side by side are one to copies and fills, because a program may have mapped them so.
/// Bytes behind the last belong to no session.
fn side_by_side(device: &mut dyn Device, program: &mut TestProgram) {
    let address = program.window().base + (1 << 30);
    let bytes = 1_u64 << 20;
    let data: Vec<u8> = (0..8_192_u32).map(|i| (i % 249) as u8).collect();
    let middle = address + bytes - 4_096;
    let slice = program.slice(&[
        alloc(address, bytes),
        alloc(address + bytes, bytes),
        set(address, 2 * bytes, 3, 1),
        (copy_in(middle, 8_192, 0), &data),
        copy(address + 512, middle, 8_192),
        copy_out(middle, 8_192),
        copy_out(address + 512, 8_192),
        copy_out(address + bytes + 4_096, 16),
        free(address),
        free(address + bytes),
    ]);
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    let read: Vec<_> = done.results.iter().map(|it| it.copied()).collect();
    let threes = vec![3; 16];
    assert_eq!(read, [data.clone(), data, threes].map(Some));
}

/// Ops of which the last fails, with its code.
fn mistakes(
    device: &dyn Device,
    program: &TestProgram,
    other: &TestProgram,
    hash: ModuleHash,
) -> Vec<(OpList, Code)> {
    let (address, foreign) = (program.window().base, other.window().base);
    let huge = device.info().capacity.saturating_mul(2);
    let huge = huge.min(program.window().size);
    let bare = |(op, _): Bare| (op, Vec::new());
    let (module, there) = (|| bare(load(hash)), || bare(alloc(address, 4_096)));
    let stray = |function, params: &[u8]| (launch(function, 1), params.to_vec());
    let at = |address: u64| vec![module(), there(), stray(1, &address.to_le_bytes())];
    let nobody = foreign.to_le_bytes();
    let mut cases = match survives_kernels(device) {
        false => Vec::new(),
        true => vec![
            (at(foreign), Code::IllegalAddress),
            (at(address + (1 << 32)), Code::IllegalAddress),
            (at(address + 2), Code::Misaligned),
        ],
    };
    cases.extend([
        (vec![module(), there(), stray(1, &[0; 4])], Code::BadLaunch),
        (vec![module(), stray(7, &nobody)], Code::UnknownFunction),
        (vec![stray(0, &nobody)], Code::UnknownFunction),
        (vec![there(), there()], Code::BadAddress),
        (vec![bare(free(address))], Code::BadAddress),
        (vec![bare(alloc(foreign, 16))], Code::BadAddress),
        (vec![bare(copy_out(address, 16))], Code::IllegalAddress),
        (
            vec![there(), bare(copy_out(address + 4_090, 16))],
            Code::IllegalAddress,
        ),
        (
            vec![there(), bare(copy(address, foreign, 16))],
            Code::IllegalAddress,
        ),
        (vec![bare(alloc(address, huge))], Code::OutOfMemory),
    ]);
    cases
}

/// Each mistake fails only its session; one other session holds memory that must stay unread.
fn faults(
    device: &mut dyn Device,
    program: &mut TestProgram,
    other: &TestProgram,
    hash: ModuleHash,
) {
    let cases = mistakes(device, program, other, hash);
    for (index, (ops, code)) in cases.into_iter().enumerate() {
        let mut ops: Vec<_> = ops.iter().map(|(op, bytes)| (*op, &bytes[..])).collect();
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
    let mut program = TestProgram::new(1);
    device
        .open(program.session(), program.window(), None)
        .expect("closed windows are free");
    let address = program.window().base;
    let slice = program.slice(&[load(hash), alloc(address, 4_096), copy_out(address, 4_096)]);
    let done = complete(device, slice);
    assert_eq!(
        done.results[0].copied().as_deref(),
        Some(&[0; 4_096][..]),
        "memory is not leaked"
    );
    device.close(program.session());
}
