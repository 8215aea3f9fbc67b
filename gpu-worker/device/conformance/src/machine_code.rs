//! Machine code: a GPU that it was made for runs it, and every other device refuses it.

use bus_schemas::{Code, Column, Launch, ModuleHash, Op, Symbol};
use device::Device;

use crate::kernels::{alloc, copy_in, copy_out, free};
use crate::program::{TestProgram, complete};

/// Machine code of `wide.ptx` beside it, for GPUs of compute capability 9.
const WIDE: &[u8] = include_bytes!("../../../ptx/tests/cubins/wide-sm_90.cubin");

/// Bytes of the parameters: 4,200 and an address, then a word.
const PARAMS: usize = 4_212;

pub(super) fn runs_or_is_refused(device: &mut dyn Device, program: &mut TestProgram) {
    let hash = ModuleHash::of(WIDE);
    let (runs, prepared) = {
        let properties = &device.info().properties;
        let runs = properties.kind == "cuda" && properties.compute.0 == 9;
        (runs, device.prepare(hash, WIDE))
    };
    let info = match prepared {
        Ok(info) if runs => info,
        Err(failure) if !runs => return assert_eq!(failure.code, Code::NoBinary, "{failure}"),
        other => panic!("machine code that runs ({runs}): {other:?}"),
    };
    let functions = info.functions.iter();
    let functions: Vec<_> = functions.map(|it| (&it.name[..], it.param_bytes)).collect();
    assert_eq!(functions, [("wide", PARAMS as u32)]);
    let load = (Op::LoadModule { slot: 0, hash }, &[][..]);
    let slice = program.slice(&[load, (Op::Symbols { slot: 0 }, &[])]);
    let completion = complete(device, slice);
    assert_eq!(completion.fault, None);
    let rows = completion.results[0].copied().expect("rows");
    let rows: Vec<Symbol> = Column::new(&rows).expect("whole rows").iter().collect();
    // The order is that of its symbols, whichever that is: `added` and `factor`.
    let added = rows.iter().find(|row| row.writable).expect("a variable");
    let factor = rows.iter().find(|row| !row.writable).expect("a constant");
    assert_eq!((rows.len(), added.bytes, factor.bytes), (2, 4, 4));

    let address = program.window().base;
    let mut params = vec![0; PARAMS];
    params[4_196..4_200].copy_from_slice(&1_000_u32.to_le_bytes());
    params[4_200..4_208].copy_from_slice(&address.to_le_bytes());
    params[4_208..].copy_from_slice(&20_u32.to_le_bytes());
    let launch = Op::Launch(Launch {
        module: 0,
        function: 0,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    });
    let slice = program.slice(&[
        alloc(address, 64),
        copy_out(added.address, 4),
        (launch, &params),
        copy_out(address, 4),
        (copy_in(added.address, 4, 0), &7_u32.to_le_bytes()),
        (copy_in(factor.address, 4, 0), &2_u32.to_le_bytes()),
        (launch, &params),
        copy_out(address, 4),
        free(address),
        (Op::UnloadModule { slot: 0 }, &[]),
    ]);
    let completion = complete(device, slice);
    assert_eq!((completion.fault, completion.resident), (None, 0));
    let read = completion.results.iter().map(|it| it.copied());
    let read: Vec<_> = read.map(|bytes| bytes.expect("bytes")).collect();
    let wanted = [5, 1_000 + 20 * 3 + 5, 1_000 + 20 * 2 + 7];
    assert_eq!(read, wanted.map(u32::to_le_bytes));
}
