//! Runs one instruction in every lane, and compares each lane with what is expected.

use device_cpu::{Engine, EngineConfig, Grid, Instance, Isa, Memory, Program};
use ptx::Module;

pub(crate) const BASE: u64 = 0x1000_0000_0000;
pub(crate) const COUNT: usize = 256;

/// Values that break things, then a fixed random sequence.
pub(crate) fn values(seed: u64) -> Vec<u64> {
    let edges = [
        0,
        1,
        2,
        31,
        32,
        33,
        u64::MAX,
        1 << 31,
        (1 << 31) - 1,
        1 << 63,
        (1 << 63) - 1,
        0x3f80_0000,
        0xbf80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0001,
        0x0000_0001,
        0x8000_0000,
        0x007f_ffff,
        0x4f00_0000,
        0x3ff0_0000_0000_0000,
        0x7ff0_0000_0000_0000,
        0x4049_0fdb,
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..COUNT)
        .map(|i| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match i % 4 {
                0 => edges[(i / 4 + seed as usize * 7) % edges.len()],
                1 => edges[(state % edges.len() as u64) as usize],
                // Floats of moderate size in both widths.
                2 => u64::from((state as i32 as f32 * 1e-6).to_bits()),
                _ => state,
            }
        })
        .collect()
}

pub(crate) fn size(ty: &str) -> usize {
    match &ty[1..] {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        "64" => 8,
        _ => match ty {
            "pred" => 4,
            _ => {
                2 * size(&format!(
                    "x{}",
                    &ty.trim_end_matches("x2")[ty.find('1').unwrap_or(1)..]
                ))
            }
        },
    }
}

pub(crate) fn bytes(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Runs `text` (with `%d`, `%a`, `%b`, `%c`) for all value triples.
pub(crate) fn run(isa: Isa, text: &str, types: &[&str]) -> Vec<u64> {
    let mut body = String::new();
    for (at, ty) in types.iter().enumerate() {
        let name = ["d", "a", "b", "c"][at];
        let bits = 8 * size(ty);
        if *ty == "pred" && at == 0 {
            body += ".reg .pred %d, %q;\n.reg .b32 %word;\n";
        } else if *ty == "pred" {
            body += &format!(
                ".reg .pred %{name};\n.reg .b32 %w{name};\nld.global.b32 %w{name}, [%p{name}];\nand.b32 %w{name}, %w{name}, 1;\nsetp.ne.u32 %{name}, %w{name}, 0;\n"
            );
        } else {
            body += &format!(".reg .b{bits} %{name};\n");
            if at > 0 {
                body += &format!("ld.global.b{bits} %{name}, [%p{name}];\n");
            }
        }
    }
    body += text;
    body += "\n";
    body += &if types[0] == "pred" {
        "selp.u32 %word, 1, 0, %d;\nst.global.u32 [%pd], %word;\n".to_owned()
    } else {
        format!("st.global.b{} [%pd], %d;\n", 8 * size(types[0]))
    };
    let source = format!(
        ".version 8.3\n.target sm_80\n.address_size 64\n
        .entry k(.param .u64 base) {{
        .reg .b64 %pa, %pb, %pc, %pd, %at; .reg .b32 %tid;
        ld.param.u64 %pa, [base]; mov.u32 %tid, %tid.x; mul.wide.u32 %at, %tid, 8;
        add.u64 %pa, %pa, %at; add.u64 %pb, %pa, {n}; add.u64 %pc, %pb, {n};
        add.u64 %pd, %pc, {n};
        {body} ret; }}",
        n = 8 * COUNT
    );
    let module = Module::parse(&source).unwrap_or_else(|error| panic!("{text}: {error}"));
    let program = Program::build_for(&module, isa).unwrap_or_else(|e| panic!("{text}: {e}"));
    let mut memory = Memory::new(BASE, 16 << 20, 16 << 20).expect("reserved");
    memory.alloc(BASE, 32 * COUNT as u64).expect("room");
    for (at, seed) in [1, 2, 3].into_iter().enumerate() {
        let start = BASE + (8 * COUNT * at) as u64;
        memory.write(start, &bytes(&values(seed))).expect("live");
    }
    let instance = Instance::new(&program, &mut memory).expect("placed");
    let grid = Grid {
        grid: [1; 3],
        block: [COUNT as u32, 1, 1],
        shared: 0,
    };
    let engine = Engine::new(EngineConfig::default());
    engine
        .launch(&instance, 0, grid, &BASE.to_le_bytes(), &mut memory)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut out = vec![0; 8 * COUNT];
    memory
        .read(BASE + 24 * COUNT as u64, &mut out)
        .expect("live");
    let (chunks, _) = out.as_chunks::<8>();
    chunks
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
        .collect()
}

pub(crate) type Expected = fn(u64, u64, u64) -> u64;

pub(crate) fn check(text: &str, types: &[&str], expected: Expected) {
    for isa in [Isa::Portable, Isa::detect()] {
        let got = run(isa, text, types);
        let (a, b, c) = (values(1), values(2), values(3));
        for i in 0..COUNT {
            let cut = |value: u64, at: usize| match types.get(at).map_or(8, |ty| size(ty)) {
                8 => value,
                n => value & ((1 << (8 * n)) - 1),
            };
            let want = cut(expected(cut(a[i], 1), cut(b[i], 2), cut(c[i], 3)), 0);
            assert_eq!(
                got[i], want,
                "{text} {isa:?} lane {i}: {:#x} {:#x} {:#x} gave {:#x}, expected {want:#x}",
                a[i], b[i], c[i], got[i]
            );
        }
    }
}

pub(crate) fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub(crate) fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

pub(crate) fn single(x: f32) -> u64 {
    if x.is_nan() {
        0x7fff_ffff
    } else {
        u64::from(x.to_bits())
    }
}
