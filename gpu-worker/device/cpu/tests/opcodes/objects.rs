//! Objects of textures and surfaces: their answers to queries, and invalid ones. No object,
//! whatever its contents, causes more than a fault.

use crate::texels::{DATA, Image};
use crate::textures::run;
use crate::vector::Test;
use crate::warp::{BASE, BUFFER, EMPTY, Random, Register, Warp, isas};
use bus_schemas::{AddressMode, Channel, TextureShape, Texture};

/// Queries of a texture.
fn questions(tests: &mut Vec<Test>) {
    let texture = Texture {
        shape: TextureShape::Layered,
        address: BASE + DATA as u64,
        width: 640,
        height: 480,
        depth: 9,
        channels: 2,
        bits: 16,
        channel: Channel::Signed,
        normalized_read: true,
        linear: true,
        normalized: true,
        modes: [AddressMode::Mirror, AddressMode::Clamp, AddressMode::Border],
        ..Texture::default()
    };
    let both = [
        ("width", 640),
        ("height", 480),
        ("depth", 0),
        ("array_size", 9),
        ("channel_data_type", 0x10d1),
        ("channel_order", 0x10b2),
    ];
    let more = [
        ("normalized_coords", 1),
        ("num_mipmap_levels", 1),
        ("num_samples", 1),
        ("force_unnormalized_coords", 0),
        ("filter_mode", 1),
        ("addr_mode_0", 1),
        ("addr_mode_1", 3),
        ("addr_mode_2", 4),
    ];
    let asked = both
        .into_iter()
        .chain(more)
        .map(|(name, want)| (format!("txq.{name}.b32"), want));
    let levels = both
        .into_iter()
        .take(3)
        .map(|(name, want)| (format!("txq.level.{name}.b32"), want));
    let surfaces = both.into_iter().chain([("memory_layout", 0)]);
    let surfaces = surfaces.map(|(name, want)| (format!("suq.{name}.b32"), want));
    for (form, want) in asked.chain(levels).chain(surfaces) {
        let mut texture = texture;
        texture.surface = form.starts_with("suq");
        let level = if form.contains("level.") { ", 0" } else { "" };
        let text = format!("{form} %o0, [%g]{level};");
        tests.push(Test::check(vec![form], move || {
            let image = Image {
                texture,
                buffer: texture.to_bytes().to_vec(),
            };
            for isa in isas() {
                assert_eq!(run(&image, &text, &[], isa).outputs[0], [want; 32], "{text}");
            }
        }));
    }
    kinds(tests, texture);
}

/// Queries for handles of textures and of surfaces.
fn kinds(tests: &mut Vec<Test>, texture: Texture) {
    for (kind, held) in [
        ("texref", [1, 0, 0]),
        ("surfref", [0, 1, 0]),
        ("samplerref", [0; 3]),
    ] {
        let form = format!("istypep.{kind}");
        let text = format!(
            ".reg .pred p; .reg .b64 h; {form} p, %g; selp.u32 %o0, 1, 0, p;
             add.u64 h, %g, 128; {form} p, h; selp.u32 %o1, 1, 0, p;
             mov.u64 h, -64; {form} p, h; selp.u32 %o2, 1, 0, p;"
        );
        tests.push(Test::check(vec![form], move || {
            let surface = Texture {
                surface: true,
                ..texture
            };
            let buffer = [texture.to_bytes(), surface.to_bytes()].concat();
            let image = Image { texture, buffer };
            for isa in isas() {
                let left = run(&image, &text, &[], isa);
                assert_eq!([0, 1, 2].map(|at| left.outputs[at][5]), held, "{text}");
            }
        }));
    }
}

/// An instruction of each kind, on the object `h`.
const KINDS: [&str; 12] = [
    "tex.1d.v4.f32.s32 {%o0, %o1, %o2, %o3}, [h, {%i0}];",
    "tex.1d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [h, {%i0}];",
    "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [h, {%i0, %i1}];",
    "tex.3d.v4.u32.f32 {%o0, %o1, %o2, %o3}, [h, {%i0, %i1, %i2, %i0}], {%i2, %i1, %i0, %i0};",
    "tex.a2d.v4.f32.s32 {%o0, %o1, %o2, %o3}, [h, {%i2, %i1, %i0, %i0}];",
    "tld4.b.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [h, {%i0, %i1}];",
    "txq.array_size.b32 %o0, [h];",
    "suld.b.3d.v4.b32.clamp {%o0, %o1, %o2, %o3}, [h, {%i0, %i1, %i2, %i0}];",
    "suld.b.a2d.b8.zero %o0, [h, {%i0, %i1, %i2, %i0}];",
    "sust.b.2d.v2.b32.trap [h, {%i0, %i1}], {%i0, %i1};",
    "sust.p.3d.v4.b32.clamp [h, {%i0, %i1, %i2, %i0}], {%i0, %i1, %i2, %i0};",
    "suq.channel_data_type.b32 %o0, [h];",
];

/// Result of an instruction on an object at `handle`; a fault in words.
fn ended(kind: &str, handle: &str, buffer: &[u8], inputs: &[Register]) -> Result<(), String> {
    let text = format!(".reg .b64 h; mov.b64 h, {handle}; {kind}");
    let mut ends = isas().into_iter().map(|isa| {
        let warp = Warp { text: &text, inputs, outputs: &[32; 4], buffer, ..EMPTY };
        warp.result(isa)
            .map(|left| left.outputs)
            .map_err(|error| error.to_string())
    });
    let first = ends.next().expect("one at least");
    assert!(ends.all(|end| end == first), "{text}");
    first.map(|_| ())
}

fn surface(kind: &str) -> bool {
    kind.starts_with("su")
}

/// An invalid object is a fault, and so is an object that leads outside of the session.
fn refused() {
    let mut numbers = Random::new(29);
    let format = (1, 32, Channel::Float);
    let mut image = Image::random(TextureShape::Array, [8, 4, 4], format, &mut numbers);
    let inputs = [0, 1, 1].map(|at| Register::words([at; 32]));
    let fault = |kind: &str, handle: &str, buffer: &[u8], words: &str| {
        let end = ended(kind, handle, buffer, &inputs);
        let said = end.expect_err(kind);
        let illegal = said.contains("illegal address") && said.contains(words);
        assert!(illegal, "{kind}, {handle}: {said}");
    };
    for kind in KINDS {
        let wrong = if surface(kind) {
            "a texture object where"
        } else {
            "a surface object where"
        };
        image.texture.surface = !surface(kind);
        image.describe();
        fault(kind, "%g", &image.buffer, wrong);
        image.texture.surface = surface(kind);
        image.describe();
        fault(kind, "%g+8", &image.buffer, "not the handle of a");
        let end = BUFFER - 64;
        let last = format!("{:#x}", BASE + (1 << 20) + end as u64);
        for handle in ["0", "-64", "buffer", "0x10000000000", &last] {
            fault(kind, handle, &image.buffer, "read of 128 bytes");
        }
        let mut bad = image.clone();
        (bad.texture.bits, bad.texture.channel) = (8, Channel::Float);
        bad.describe();
        fault(kind, "%g", &bad.buffer, "not the handle of a");
        if kind.contains("q.") {
            ended(kind, "%g", &image.buffer, &inputs).expect("answered");
            continue;
        }
        for address in [
            0,
            BASE - 4096,
            BASE + (1 << 20),
            0x0100_0000_0000,
            0x0400_0000_0000,
        ] {
            let mut away = image.clone();
            away.texture.address = address;
            away.describe();
            fault(kind, "%g", &away.buffer, " at 0x");
        }
        let mut away = image.clone();
        (away.texture.address, away.texture.pitch) = (u64::MAX - 15, u64::MAX);
        away.texture.slice = u64::MAX;
        away.describe();
        fault(kind, "%g", &away.buffer, "");
    }
}

/// Objects of random words end in a result or a fault, the same with every engine.
fn hostile() {
    let mut numbers = Random::new(31);
    let edges = [
        0,
        1,
        2,
        3,
        4,
        8,
        16,
        32,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        u32::MAX,
        1 << 31,
    ];
    let mut fine = 0;
    for round in 0..400 {
        let format = (4, 8 << (round % 3), Channel::Unsigned);
        let mut image = Image::random(TextureShape::Array, [9, 5, 3], format, &mut numbers);
        let kind = KINDS[round % KINDS.len()];
        image.texture.surface = surface(kind);
        image.texture.linear = round % 2 == 0;
        image.describe();
        for _ in 0..numbers.below(4) {
            let at = 4 * numbers.below(24) as usize;
            let word = match numbers.below(3) {
                0 => numbers.word(),
                1 => numbers.below(16) as u32,
                _ => edges[numbers.below(edges.len() as u64) as usize],
            };
            image.buffer[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let mut number = |_| match numbers.below(3) {
            0 => numbers.word(),
            1 => edges[numbers.below(edges.len() as u64) as usize],
            _ => numbers.below(12) as u32,
        };
        let inputs = [(); 3].map(|()| Register::words(std::array::from_fn(&mut number)));
        match ended(kind, "%g", &image.buffer, &inputs) {
            Ok(()) => fine += 1,
            Err(said) => assert!(said.contains("address"), "{kind}: {said}"),
        }
    }
    assert!((20..380).contains(&fine), "{fine}");
}

/// Lookups within a loop of otherwise compiled instructions.
fn in_a_loop() {
    let mut numbers = Random::new(37);
    let format = (1, 32, Channel::Float);
    let image = Image::random(TextureShape::Pitched, [24, 12, 0], format, &mut numbers);
    let text = ".reg .u32 x, y; .reg .s32 at; .reg .f32 sum, one, two; .reg .pred p;
        mov.f32 sum, 0f00000000; mov.u32 y, 0; and.b32 x, %laneid, 15;
        again: add.s32 at, x, y;
        tex.2d.v4.f32.s32 {one, _, _, _}, [%g, {at, y}];
        tex.2d.v4.f32.s32 {two, _, _, _}, [%g, {x, y}];
        fma.rn.f32 sum, one, two, sum; add.u32 y, y, 1; setp.lt.u32 p, y, 8; @p bra again;
        mov.b32 %o0, sum;";
    let texel = |x: usize, y: usize| image.fetch(&[x as i32, y as i32], None)[0] as f32;
    for isa in isas() {
        let left = run(&image, text, &[], isa);
        for lane in 0..32 {
            let x = lane % 16;
            let step = |sum: f32, y| texel(x + y, y).mul_add(texel(x, y), sum);
            let want = (0..8).fold(0.0, step).to_bits();
            assert_eq!(left.outputs[0][lane], u64::from(want), "{isa:?}");
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    questions(&mut tests);
    tests.push(Test::check(Vec::new(), refused));
    tests.push(Test::check(Vec::new(), hostile));
    tests.push(Test::check(Vec::new(), in_a_loop));
    tests
}
