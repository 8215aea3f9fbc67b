//! Answers to a session beside the bytes that it asked for.

use std::time::Duration;

use bus_schemas::{Code, Column, ModuleHash, Op, ResultKind, Symbol};
use device::Device;

use crate::kernels::{alloc, copy_in, copy_out, free, increment_params, launch, load};
use crate::program::{TestProgram, complete};

/// Variables of every kind; a kernel uses them, because otherwise a device might leave them out.
pub(crate) const VARIABLES: &str = "
.version 7.0
.target sm_75
.address_size 64

.visible .global .align 8 .u64 counter = 5;
.visible .const .align 4 .b32 table[4] = {1, 2, 3, 4};
.visible .global .align 1 .b8 name[3] = {97, 98, 99};

.visible .entry touch()
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.const.u32 %r1, [table+12];
    ld.global.u64 %rd1, [counter];
    cvt.u64.u32 %rd2, %r1;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u64 [counter], %rd1;
    ld.global.u8 %r2, [name];
    add.s32 %r2, %r2, 1;
    st.global.u8 [name], %r2;
    ret;
}
";

/// The slot of the module with variables.
const SLOT: u32 = 9;

/// Symbols report the addresses of a session's own instances of a module's variables. Copies reach them, and
/// kernels see the copied bytes.
pub(super) fn reports_symbols(device: &mut dyn Device, programs: [&mut TestProgram; 2]) {
    let hash = ModuleHash::of(VARIABLES.as_bytes());
    device
        .prepare(hash, VARIABLES.as_bytes())
        .expect("variables are prepared");
    let mut programs = programs;
    let addresses = programs
        .each_mut()
        .map(|program| variables(device, program, hash));
    assert!(
        addresses[0]
            .iter()
            .all(|address| !addresses[1].contains(address)),
        "both are loaded"
    );
    for program in programs {
        let slice = program.slice(&[(Op::UnloadModule { slot: SLOT }, &[])]);
        let completion = complete(device, slice);
        assert_eq!((completion.fault, completion.resident), (None, 0));
    }
}

/// Checks the variables of a session's instance and returns their addresses.
fn variables(device: &mut dyn Device, program: &mut TestProgram, hash: ModuleHash) -> Vec<u64> {
    let load = program.slice(&[
        (Op::LoadModule { slot: SLOT, hash }, &[]),
        (Op::Symbols { slot: SLOT }, &[]),
    ]);
    let completion = complete(device, load);
    assert_eq!(completion.fault, None);
    let result = &completion.results[0];
    assert_eq!(result.kind, ResultKind::Symbols);
    let rows = result.copied().expect("rows");
    let rows: Vec<Symbol> = Column::new(&rows).expect("whole rows").iter().collect();
    let shapes: Vec<_> = rows.iter().map(|it| (it.bytes, it.writable)).collect();
    assert_eq!(shapes, [(8, true), (16, false), (3, true)]);
    let addresses: Vec<u64> = rows.iter().map(|it| it.address).collect();
    assert!(
        addresses[0].is_multiple_of(8) && addresses[1].is_multiple_of(4),
        "{rows:?}"
    );
    let read = |symbol: &Symbol| copy_out(symbol.address, symbol.bytes);
    let table = copy_in(addresses[1] + 12, 4, 0);
    let touch = Op::Launch(bus_schemas::Launch {
        module: SLOT,
        function: 0,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    });
    let slice = program.slice(&[
        read(&rows[0]),
        read(&rows[1]),
        (table, &30_u32.to_le_bytes()),
        (touch, &[]),
        read(&rows[0]),
        read(&rows[2]),
    ]);
    let completion = complete(device, slice);
    assert_eq!(completion.fault, None);
    let read: Vec<Vec<u8>> = completion
        .results
        .iter()
        .map(|result| result.copied().expect("bytes"))
        .collect();
    let words: Vec<u8> = (1..=4_u32).flat_map(u32::to_le_bytes).collect();
    let counts = [5_u64, 35].map(u64::to_le_bytes);
    assert_eq!(read, [&counts[0][..], &words, &counts[1], b"bbc"]);
    addresses
}

/// A slot without a module has no symbols.
pub(super) fn misses_symbols(device: &mut dyn Device) {
    let mut program = TestProgram::new(5);
    let (session, window) = (program.session(), program.window());
    device.open(session, window, None).expect("a free window");
    let slice = program.slice(&[(Op::Symbols { slot: 0 }, &[])]);
    let (op, failure) = complete(device, slice).fault.expect("an empty slot");
    assert_eq!((op, failure.code), (1, Code::UnknownFunction));
    device.close(session);
}

/// Timed events report the time at which the work before them was done, on a clock that goes forward.
pub(super) fn reports_times(
    device: &mut dyn Device,
    program: &mut TestProgram,
    hash: ModuleHash,
    pass: &dyn Fn(Duration),
) {
    let address = program.window().base;
    let n = 1_000_u32;
    let params = increment_params(address, n);
    let event = |event, timed| (Op::Event { event, timed }, &[][..]);
    let first = program.slice(&[
        load(hash),
        alloc(address, 4_000),
        event(3, true),
        (launch(0, n), &params),
        event(4, true),
        event(5, false),
        event(3, true),
    ]);
    let at = first.first;
    let completion = complete(device, first);
    assert_eq!(completion.fault, None);
    let ops: Vec<_> = completion
        .events
        .iter()
        .map(|(op, it)| (*op, it.event))
        .collect();
    assert_eq!(ops, [(at + 2, 3), (at + 4, 4), (at + 6, 3)]);
    let times: Vec<_> = completion.events.iter().map(|(_, it)| it.ns).collect();
    assert!(times[0] < times[1] && times[1] <= times[2], "{times:?}");
    pass(Duration::from_millis(2));
    let later = program.slice(&[
        event(6, true),
        free(address),
        (Op::UnloadModule { slot: 0 }, &[]),
        (Op::Sync, &[]),
    ]);
    let later = complete(device, later).events[0].1.ns;
    assert!(later - times[2] >= 1_000_000, "{times:?}, then {later}");
}
