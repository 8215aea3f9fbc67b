//! Consecutive launches that are equal, or nearly so: state reused from one is right for the next,
//! and each is counted.

use bus_schemas::{FunctionFingerprint, ModuleHash, Op};
use device::Device;
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice};

/// Each thread adds to the word of its block; `FACTOR` distinguishes the modules. Data that a block
/// leaves in shared memory and registers must not be visible in the next.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry add(.param .u64 data, .param .u32 by) {
    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<4>; .shared .b32 word;
    ld.param.u64 %d1, [data]; ld.param.u32 %r1, [by];
    mov.u32 %r2, %ctaid.x; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
    mov.u32 %r3, %tid.x; setp.eq.u32 %p, %r3, 0;
    @%p st.shared.u32 [word], 0;
    bar.sync 0;
    atom.shared.add.u32 %r4, [word], %r1;
    bar.sync 0;
    @!%p bra end;
    ld.shared.u32 %r5, [word];
    add.u32 %r8, %r8, %r5; mul.lo.u32 %r8, %r8, FACTOR;
    atom.global.add.u32 %r6, [%d1], %r8;
end: ret;
}";

const THREADS: u32 = 48;

fn image(factor: u32) -> String {
    PTX.replace("FACTOR", &factor.to_string())
}

fn launch(blocks: u32) -> Op {
    device_conformance::flat_launch(0, blocks, THREADS)
}

/// Launches of two modules, one after the other, on the memory at `address`: some with the
/// parameters of the previous one, some not.
fn operations(address: u64, hashes: [ModuleHash; 2], [one, two]: [&[u8]; 2]) -> Vec<(Op, &[u8])> {
    let load = |at: usize| Op::LoadModule {
        slot: 0,
        hash: hashes[at],
    };
    let mut ops: Vec<(Op, &[u8])> = vec![
        (load(0), &[]),
        (Op::Alloc { address, bytes: 64 }, &[]),
        (
            Op::Set {
                address,
                count: 16,
                value: 0,
                width: 4,
            },
            &[],
        ),
    ];
    ops.extend((0..10).map(|_| (launch(1), one)));
    ops.extend((0..5).map(|at| (launch(1), if at % 2 == 0 { two } else { one })));
    ops.extend((0..3).map(|_| (launch(2), one)));
    ops.push((
        Op::Event {
            event: 1,
            timed: false,
        },
        &[],
    ));
    ops.push((launch(2), two));
    ops.push((load(1), &[]));
    ops.extend((0..2).map(|_| (launch(2), two)));
    ops.push((Op::CopyOut { address, bytes: 8 }, &[]));
    ops
}

#[test]
fn equal_launches_share_what_they_are_made_of_and_nothing_else() {
    let config = CpuConfig {
        threads: 2,
        capacity: 64 << 20,
        ..CpuConfig::default()
    };
    let mut device = CpuDevice::new(config);
    let images = [image(1), image(7)];
    let hashes = images
        .each_ref()
        .map(|image| ModuleHash::of(image.as_bytes()));
    for (hash, image) in hashes.iter().zip(&images) {
        device.prepare(*hash, image.as_bytes()).expect("builds");
    }
    let mut program = TestProgram::new(1);
    let window = program.window();
    device
        .open(program.session(), window, None)
        .expect("a free window");
    let address = window.base;
    let params = [1, 2_u32].map(|by| [&address.to_le_bytes()[..], &by.to_le_bytes()].concat());
    let ops = operations(address, hashes, params.each_ref().map(|params| &params[..]));
    let completion = complete(&mut device, program.slice(&ops));
    assert_eq!(completion.fault, None);
    let words = completion.results[0].copied().expect("a copy");
    let words: Vec<u32> = words
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect();
    let second = 3 + 2 + 2 * 2 * 7;
    let first = 10 + (3 * 2 + 2) + second;
    assert_eq!(words, [first * THREADS, second * THREADS]);
    let key = |at: usize, blocks| {
        FunctionFingerprint::new(&hashes[at], "add").key([blocks, 1, 1], [THREADS, 1, 1], 0)
    };
    let counted: Vec<_> = completion
        .kernels
        .iter()
        .map(|kernel| (kernel.key, kernel.count))
        .collect();
    assert_eq!(counted, [(key(0, 1), 15), (key(0, 2), 4), (key(1, 2), 2)]);
    assert_eq!(completion.launches, 21);
    let total: u64 = completion.kernels.iter().map(|it| it.total_ns).sum();
    assert!(total > 0 && total <= completion.device_ns);
}

/// Parameters of a wrong length are rejected after a launch with the right length.
#[test]
fn a_wrong_length_behind_a_right_one_is_refused() {
    let mut device = CpuDevice::new(CpuConfig::default());
    let (mut program, load) = TestProgram::opened(&mut device, 1, &image(1));
    let address = program.window().base;
    let params = [&address.to_le_bytes()[..], &[1, 0, 0, 0]].concat();
    let slice = program.slice(&[
        (load, &[]),
        (Op::Alloc { address, bytes: 64 }, &[]),
        (launch(1), &params),
        (launch(1), &params[..8]),
    ]);
    let completion = complete(&mut device, slice);
    let (op, failure) = completion.fault.expect("refused");
    assert_eq!((op, completion.launches), (4, 1), "{failure}");
}
