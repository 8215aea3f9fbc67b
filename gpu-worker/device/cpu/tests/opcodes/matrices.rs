//! `ldmatrix`, `stmatrix` and `movmatrix`: the half-words of each lane, and the faults.

use crate::vector::Test;
use crate::warp::{BUFFER, EMPTY, Random, Register, Warp, isas};
use device_cpu::{FaultKind, LaunchError};

/// The half-words that lane `lane` has of a matrix of 8 by 8, by the ISA manual. They are two
/// neighbours of row `lane / 4`, or of a column if the matrix is transposed.
fn pair(matrix: &[[u16; 8]; 8], lane: usize, transposed: bool) -> u64 {
    let (row, column) = (lane / 4, lane % 4 * 2);
    let at = |row: usize, column: usize| {
        u64::from(if transposed {
            matrix[column][row]
        } else {
            matrix[row][column]
        })
    };
    at(row, column) | at(row, column + 1) << 16
}

fn random_buffer(numbers: &mut Random) -> Vec<u8> {
    (0..BUFFER).map(|_| numbers.word() as u8).collect()
}

/// Different multiples of 16 within the buffer, one for each lane.
fn places(numbers: &mut Random) -> [u64; 32] {
    let start = numbers.below(BUFFER as u64 / 16);
    // An odd step visits every place once.
    let step = numbers.below(64) | 1;
    std::array::from_fn(|lane| (start + lane as u64 * step) * 16 % BUFFER as u64)
}

/// Forms of an address: its space in the opcode, and code that makes it from an offset in `%i0`.
fn spaces() -> [(&'static str, &'static str); 4] {
    let narrow = ".reg .b32 %a, %low; .reg .b64 %start; mov.u64 %start, buffer;
        cvt.u32.u64 %low, %start; cvt.u32.u64 %a, %i0; add.u32 %a, %a, %low;";
    let wide = ".reg .b64 %a; mov.u64 %a, buffer; add.u64 %a, %a, %i0;";
    let generic = ".reg .b64 %a; mov.u64 %a, buffer; cvta.shared.u64 %a, %a; add.u64 %a, %a, %i0;";
    [
        (".shared", wide),
        (".shared", narrow),
        (".shared::cta", wide),
        ("", generic),
    ]
}

fn list(name: &str, first: usize, count: usize) -> String {
    let names: Vec<_> = (first..first + count)
        .map(|at| format!("%{name}{at}"))
        .collect();
    format!("{{{}}}", names.join(", "))
}

fn rows_at(buffer: &[u8], places: &[u64; 32], matrix: usize) -> [[u16; 8]; 8] {
    std::array::from_fn(|row| {
        let start = places[8 * matrix + row] as usize;
        std::array::from_fn(|at| {
            u16::from_le_bytes([buffer[start + 2 * at], buffer[start + 2 * at + 1]])
        })
    })
}

fn load(form: &str, (transposed, count): (bool, usize), address: &str) {
    for (round, isa) in isas().into_iter().enumerate() {
        let mut numbers = Random::new(form.len() as u64 + round as u64);
        let buffer = random_buffer(&mut numbers);
        let places = places(&mut numbers);
        let mut given = places;
        // Lanes beyond the matrices' rows provide no address.
        given[8 * count..].fill(0x1234_5677);
        let text = format!("{address} {form} {}, [%a];", list("o", 0, count));
        let left = Warp {
            text: &text,
            inputs: &[Register::doubles(given)],
            outputs: &vec![32; count],
            buffer: &buffer,
            shared: true,
        }
        .run(isa);
        for matrix in 0..count {
            let rows = rows_at(&buffer, &places, matrix);
            for lane in 0..32 {
                let want = pair(&rows, lane, transposed);
                let got = left.outputs[matrix][lane];
                assert!(got == want, "{form} {isa:?} matrix {matrix} lane {lane}");
            }
        }
    }
}

fn save(form: &str, (transposed, count): (bool, usize), address: &str) {
    for (round, isa) in isas().into_iter().enumerate() {
        let mut numbers = Random::new(form.len() as u64 + round as u64);
        let mut buffer = random_buffer(&mut numbers);
        let places = places(&mut numbers);
        let mut inputs = vec![Register::doubles(places)];
        inputs.extend((0..count).map(|_| {
            let lanes: [u32; 32] = std::array::from_fn(|_| numbers.word());
            Register::words(lanes)
        }));
        let text = format!("{address} {form} [%a], {};", list("i", 1, count));
        let left = Warp {
            text: &text,
            inputs: &inputs,
            outputs: &[],
            buffer: &buffer,
            shared: true,
        }
        .run(isa);
        for matrix in 0..count {
            for lane in 0..32 {
                let held = inputs[1 + matrix].lanes[lane];
                for part in 0..2 {
                    let (mut row, mut column) = (lane / 4, lane % 4 * 2 + part);
                    if transposed {
                        (row, column) = (column, row);
                    }
                    let at = places[8 * matrix + row] as usize + 2 * column;
                    let bytes = (held >> (16 * part)) as u16;
                    buffer[at..at + 2].copy_from_slice(&bytes.to_le_bytes());
                }
            }
        }
        assert!(left.buffer == buffer, "{form} {isa:?}");
    }
}

fn turn(form: &str) {
    for isa in isas() {
        let mut numbers = Random::new(5);
        let lanes: [u32; 32] = std::array::from_fn(|_| numbers.word());
        let left = Warp {
            text: &format!("{form} %o0, %i0;"), inputs: &[Register::words(lanes)], outputs: &[32],
            ..EMPTY
        }.run(isa);
        let rows: [[u16; 8]; 8] = std::array::from_fn(|row| {
            std::array::from_fn(|at| (lanes[4 * row + at / 2] >> (16 * (at % 2))) as u16)
        });
        for lane in 0..32 {
            assert!(left.outputs[0][lane] == pair(&rows, lane, true), "{isa:?} lane {lane}");
        }
    }
}

/// A row's address that is out of bounds or misaligned is reported for the lane that provided it.
fn faults(form: &str) {
    let cases = [
        (11, BUFFER as u64, FaultKind::IllegalAddress),
        (5, BUFFER as u64 - 8, FaultKind::Misaligned),
        (30, 8, FaultKind::Misaligned),
    ];
    for isa in isas() {
        for (lane, offset, kind) in cases {
            let mut given: [u64; 32] = std::array::from_fn(|lane| 16 * lane as u64);
            given[lane] = offset;
            let text = format!(
                ".reg .b64 %a; mov.u64 %a, buffer; add.u64 %a, %a, %i0;
                 {form} {{%o0, %o1, %o2, %o3}}, [%a];"
            );
            let warp = Warp {
                text: &text, inputs: &[Register::doubles(given)], outputs: &[32; 4],
                ..EMPTY
            };
            match warp.result(isa) {
                Err(LaunchError::Fault(fault)) => {
                    assert_eq!((fault.kind, fault.thread[0]), (kind, lane as u32));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (space, address) in spaces() {
        for (trans, transposed) in [("", false), (".trans", true)] {
            for (name, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
                let form = format!("ldmatrix.sync.aligned.m8n8.{name}{trans}{space}.b16");
                tests.push(Test::check(vec![form.clone()], move || {
                    load(&form, (transposed, count), address);
                }));
                let form = format!("stmatrix.sync.aligned.m8n8.{name}{trans}{space}.b16");
                tests.push(Test::check(vec![form.clone()], move || {
                    save(&form, (transposed, count), address);
                }));
            }
        }
    }
    let form = "movmatrix.sync.aligned.m8n8.trans.b16";
    tests.push(Test::check(vec![form.into()], move || turn(form)));
    let form = "ldmatrix.sync.aligned.m8n8.x4.shared.b16";
    tests.push(Test::check(vec![form.into()], move || faults(form)));
    tests
}
