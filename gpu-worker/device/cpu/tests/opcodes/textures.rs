//! Lookups of textures, against texels walked to one by one.

use crate::texels::Image;
use crate::vector::Test;
use crate::warp::{EMPTY, Left, Random, Register, Warp, isas};
use bus_schemas::{AddressMode, Channel, TextureShape};

const MODES: [AddressMode; 4] = [
    AddressMode::Wrap,
    AddressMode::Clamp,
    AddressMode::Mirror,
    AddressMode::Border,
];

/// A geometry: its name, dimensions, true for layers, and sizes of a texture for it.
type Geometry = (&'static str, usize, bool, [u32; 3]);

const GEOMETRIES: [Geometry; 5] = [
    ("1d", 1, false, [7, 0, 0]),
    ("2d", 2, false, [7, 5, 0]),
    ("3d", 3, false, [4, 3, 5]),
    ("a1d", 1, true, [6, 0, 4]),
    ("a2d", 2, true, [5, 3, 4]),
];

/// Texels: channels, bits and type, true if they are read as floats, the type of results.
const FORMATS: [(u32, u32, Channel, bool, &str); 8] = [
    (1, 32, Channel::Float, false, "f32"),
    (4, 32, Channel::Float, false, "f32"),
    (2, 16, Channel::Float, false, "f32"),
    (4, 8, Channel::Unsigned, true, "f32"),
    (2, 16, Channel::Signed, true, "f32"),
    (4, 8, Channel::Signed, false, "s32"),
    (2, 16, Channel::Unsigned, false, "u32"),
    (1, 32, Channel::Unsigned, true, "u32"),
];

fn image(
    (_, _, layered, sizes): Geometry,
    (channels, bits, channel, scaled, _): (u32, u32, Channel, bool, &str),
    numbers: &mut Random,
) -> Image {
    let shape = if layered {
        TextureShape::Layered
    } else {
        TextureShape::Array
    };
    let mut image = Image::random(shape, sizes, (channels, bits, channel), numbers);
    image.texture.normalized_read = scaled;
    image
}

/// Coordinates around a texture, some of them far outside.
fn floats(normalized: bool, size: u32, numbers: &mut Random) -> [f32; 32] {
    std::array::from_fn(|_| {
        let part = (numbers.below(16384) as f32 - 6144.0) / 4096.0;
        if normalized { part } else { part * size as f32 }
    })
}

fn words(lanes: [f32; 32]) -> Register {
    Register::words(lanes.map(f32::to_bits))
}

/// `{%i0, …}` as coordinates: four elements where the ISA has four.
fn list(registers: usize) -> String {
    let mut names: Vec<String> = (0..registers).map(|at| format!("%i{at}")).collect();
    if registers == 3 {
        names.push("%i0".into());
    }
    format!("{{{}}}", names.join(", "))
}

fn layers(count: u32, numbers: &mut Random) -> [u32; 32] {
    std::array::from_fn(|_| numbers.below(u64::from(count) + 2) as u32)
}

pub(crate) fn run(image: &Image, text: &str, inputs: &[Register], isa: device_cpu::Isa) -> Left {
    Warp { text, inputs, outputs: &[32; 4], buffer: &image.buffer, ..EMPTY }.run(isa)
}

fn lane(left: &Left, lane: usize) -> [u64; 4] {
    [0, 1, 2, 3].map(|at| left.outputs[at][lane])
}

/// A form at random coordinates; `prefix` is the opcode up to the geometry.
fn looked_up(image: &Image, geometry: Geometry, ty: &str, numbers: &mut Random, offsets: &[i32]) {
    let (name, dimensions, layered, sizes) = geometry;
    let texture = &image.texture;
    let at: Vec<[f32; 32]> = (0..dimensions)
        .map(|axis| floats(texture.normalized, sizes[axis], numbers))
        .collect();
    let layer = layers(sizes[2], numbers);
    let mut inputs: Vec<Register> = Vec::new();
    if layered {
        inputs.push(Register::words(layer));
    }
    inputs.extend(at.iter().map(|lanes| words(*lanes)));
    let coordinates = list(inputs.len());
    let more = match offsets {
        [] => String::new(),
        [x] => format!(", {{{x}}}"),
        [x, y] => format!(", {{{x}, {y}}}"),
        [x, y, z, ..] => format!(", {{{x}, {y}, {z}, 0}}"),
    };
    let text = format!("tex.{name}.v4.{ty}.f32 {{%o0, %o1, %o2, %o3}}, [%g, {coordinates}]{more};");
    for isa in isas() {
        let left = run(image, &text, &inputs, isa);
        for place in 0..32 {
            let at: Vec<f32> = at.iter().map(|lanes| lanes[place]).collect();
            let chosen = layered.then(|| layer[place].min(sizes[2] - 1));
            let want = image.look_up(&at, chosen, offsets);
            let got = lane(&left, place);
            assert!(
                image.agrees(got, want),
                "{text} {isa:?} at {at:?} of {texture:?}: {got:x?}, not {want:?}"
            );
        }
    }
}

/// Every mode, filtered or not, by texels or from 0 to 1.
fn lookups(tests: &mut Vec<Test>) {
    for geometry in GEOMETRIES {
        for ty in ["f32", "s32", "u32"] {
            let check = move || {
                let mut numbers = Random::new(7 + geometry.3[0] as u64);
                for format in FORMATS.into_iter().filter(|format| format.4 == ty) {
                    for choice in 0..16 {
                        let mut image = image(geometry, format, &mut numbers);
                        let texture = &mut image.texture;
                        texture.modes = [0, 1, 3].map(|more| MODES[(choice + more) % 4]);
                        texture.normalized = choice & 4 != 0;
                        texture.linear = choice & 8 != 0;
                        image.describe();
                        let offsets = [-1, 2, 1].map(|at| at * (choice as i32 % 3));
                        let offsets = if choice % 3 == 0 {
                            &[]
                        } else {
                            &offsets[..geometry.1]
                        };
                        looked_up(&image, geometry, ty, &mut numbers, offsets);
                    }
                }
            };
            let form = format!("tex.{}.v4.{ty}.f32", geometry.0);
            tests.push(Test::check(vec![form], check));
        }
    }
}

/// Lookups by integer texels, neither scaled nor filtered; and of a row in memory, where texels
/// outside are 0.
fn fetches(tests: &mut Vec<Test>) {
    for geometry in GEOMETRIES {
        for ty in ["f32", "s32", "u32"] {
            let form = format!("tex.{}.v4.{ty}.s32", geometry.0);
            let opcode = form.clone();
            let check = move || {
                let mut numbers = Random::new(11);
                for format in FORMATS.into_iter().filter(|format| format.4 == ty) {
                    for mode in MODES {
                        let mut image = image(geometry, format, &mut numbers);
                        image.texture.modes = [mode; 3];
                        (image.texture.linear, image.texture.normalized) = (true, true);
                        image.describe();
                        fetched(&image, geometry, &opcode, &mut numbers);
                    }
                }
            };
            tests.push(Test::check(vec![form], check));
        }
    }
    tests.push(Test::check(vec!["tex.1d.v4.f32.s32".into()], || {
        let mut numbers = Random::new(13);
        let mut image = Image::random(
            TextureShape::Linear,
            [40, 0, 0],
            (1, 32, Channel::Float),
            &mut numbers,
        );
        image.texture.linear = true;
        image.describe();
        let at = Register::words(std::array::from_fn(|lane| (lane as i32 * 3 - 20) as u32));
        for text in [
            "tex.1d.v4.f32.s32 {%o0, %o1, %o2, %o3}, [%g, {%i0}];",
            "tex.1d.v4.f32.s32 {%o0, %o1, %o2, %o3}, [%g, %i0];",
            ".reg .f32 x; cvt.rn.f32.s32 x, %i0; tex.1d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%g, x];",
        ] {
            for isa in isas() {
                let left = run(&image, text, std::slice::from_ref(&at), isa);
                for place in 0..32 {
                    let index = place as i32 * 3 - 20;
                    let inside = (0..40).contains(&index);
                    let want = if inside {
                        image.fetch(&[index], None)
                    } else {
                        [0.0, 0.0, 0.0, 1.0]
                    };
                    assert!(image.agrees(lane(&left, place), want), "{text} {index}");
                }
            }
        }
    }));
}

fn fetched(image: &Image, geometry: Geometry, opcode: &str, numbers: &mut Random) {
    let (_, dimensions, layered, sizes) = geometry;
    let at: Vec<[u32; 32]> = (0..dimensions)
        .map(|axis| {
            let size = u64::from(sizes[axis]);
            std::array::from_fn(|_| (numbers.below(3 * size) as i32 - size as i32) as u32)
        })
        .collect();
    let layer = layers(sizes[2], numbers);
    let mut inputs: Vec<Register> = Vec::new();
    if layered {
        inputs.push(Register::words(layer));
    }
    inputs.extend(at.iter().map(|lanes| Register::words(*lanes)));
    let text = format!(
        "{opcode} {{%o0, %o1, %o2, %o3}}, [%g, {}];",
        list(inputs.len())
    );
    for isa in isas() {
        let left = run(image, &text, &inputs, isa);
        for place in 0..32 {
            let at: Vec<i32> = at.iter().map(|lanes| lanes[place] as i32).collect();
            let chosen = layered.then(|| layer[place].min(sizes[2] - 1));
            let (got, want) = (lane(&left, place), image.fetch(&at, chosen));
            assert!(
                image.agrees(got, want),
                "{text} {isa:?} at {at:?}: {got:x?}, not {want:?}"
            );
        }
    }
}

/// Four texels of one channel.
fn gathers(tests: &mut Vec<Test>) {
    for (channel, letter) in ["r", "g", "b", "a"].into_iter().enumerate() {
        for geometry in [GEOMETRIES[1], GEOMETRIES[4]] {
            for ty in ["f32", "s32", "u32"] {
                let form = format!("tld4.{letter}.{}.v4.{ty}.f32", geometry.0);
                let opcode = form.clone();
                let check = move || {
                    let mut numbers = Random::new(17);
                    for format in FORMATS.into_iter().filter(|format| format.4 == ty) {
                        for (at, mode) in MODES.into_iter().enumerate() {
                            let mut image = image(geometry, format, &mut numbers);
                            image.texture.modes = [mode; 3];
                            image.texture.normalized = at % 2 == 0;
                            image.describe();
                            gathered(&image, geometry, (&opcode, channel), &mut numbers);
                        }
                    }
                };
                tests.push(Test::check(vec![form], check));
            }
        }
    }
}

fn gathered(
    image: &Image,
    (_, _, layered, sizes): Geometry,
    (opcode, channel): (&str, usize),
    numbers: &mut Random,
) {
    let at = [0, 1].map(|axis| floats(image.texture.normalized, sizes[axis], numbers));
    let layer = layers(sizes[2], numbers);
    let mut inputs: Vec<Register> = Vec::new();
    if layered {
        inputs.push(Register::words(layer));
    }
    inputs.extend(at.map(words));
    let text = format!(
        "{opcode} {{%o0, %o1, %o2, %o3}}, [%g, {}];",
        list(inputs.len())
    );
    for isa in isas() {
        let left = run(image, &text, &inputs, isa);
        for place in 0..32 {
            let chosen = layered.then(|| layer[place].min(sizes[2] - 1));
            let want = image.gather(at.map(|lanes| lanes[place]), chosen, channel);
            assert!(image.agrees(lane(&left, place), want), "{text} {isa:?}");
        }
    }
}

/// Other spellings of a lookup, with the result of the plain one.
fn spellings(tests: &mut Vec<Test>) {
    let all = [
        (
            "tex.base.2d.v4.f32.f32",
            "tex.base.2d.v4.f32.f32 {a, b, c, d}, [%g, {%i0, %i1}];",
        ),
        (
            "tex.level.2d.v4.f32.f32",
            "tex.level.2d.v4.f32.f32 {a, b, c, d}, [%g, {%i0, %i1}], %i0;",
        ),
        (
            "tex.grad.2d.v4.f32.f32",
            "tex.grad.2d.v4.f32.f32 {a, b, c, d}, [%g, {%i0, %i1}], {%i0, %i1}, {%i1, %i0};",
        ),
        (
            "tex.2d.v4.f32.f32",
            ".reg .pred p; tex.2d.v4.f32.f32 {a, b, c, d}|p, [%g, {%i0, %i1}], {0, 0}; @!p trap;",
        ),
        (
            "tex.2d.v4.f32.f32",
            ".reg .v4 .f32 v; .reg .v2 .f32 w; .reg .pred p; mov.b32 w.x, %i0; mov.b32 w.y, %i1;
             tex.2d.v4.f32.f32 v|p, [%g, w]; @!p trap; mov.v4.f32 {a, b, c, d}, v;",
        ),
        (
            "tex.2d.v4.f32.f32",
            "tex.2d.v4.f32.f32 {a, _, c, _}, [%g, {%i0, %i1}];
             tex.2d.v4.f32.f32 {_, b, _, d}, [%g, {%i0, %i1}];",
        ),
        (
            "tex.2d.v4.f16.f32",
            ".reg .b16 h<4>; tex.2d.v4.f16.f32 {h0, h1, h2, h3}, [%g, {%i0, %i1}];
             cvt.f32.f16 a, h0; cvt.f32.f16 b, h1; cvt.f32.f16 c, h2; cvt.f32.f16 d, h3;",
        ),
        (
            "tex.2d.v2.f16x2.f32",
            ".reg .b32 x, y; .reg .b16 h<4>; tex.2d.v2.f16x2.f32 {x, y}, [%g, {%i0, %i1}];
             mov.b32 {h0, h1}, x; mov.b32 {h2, h3}, y;
             cvt.f32.f16 a, h0; cvt.f32.f16 b, h1; cvt.f32.f16 c, h2; cvt.f32.f16 d, h3;",
        ),
    ];
    for (form, body) in all {
        let check = move || {
            let mut numbers = Random::new(19);
            let image = image(
                GEOMETRIES[1],
                (4, 16, Channel::Float, false, ""),
                &mut numbers,
            );
            let at = [0, 1].map(|axis| floats(false, [7, 5][axis], &mut numbers));
            let text = format!(
                ".reg .f32 a, b, c, d; {body} mov.b32 %o0, a; mov.b32 %o1, b; mov.b32 %o2, c; mov.b32 %o3, d;"
            );
            for isa in isas() {
                let left = run(&image, &text, &at.map(words), isa);
                for place in 0..32 {
                    let want = image.look_up(&at.map(|lanes| lanes[place]), None, &[]);
                    assert!(image.agrees(lane(&left, place), want), "{text} {isa:?}");
                }
            }
        };
        tests.push(Test::check(vec![form.into()], check));
    }
}

/// Only lanes with a true guard look up: the handles of others are not used. Warps run side by
/// side.
fn guarded() {
    let mut numbers = Random::new(23);
    let image = image(GEOMETRIES[0], FORMATS[0], &mut numbers);
    let at = Register::words(std::array::from_fn(|lane| lane as u32 % 7));
    let text = ".reg .pred p; .reg .b64 h; setp.lt.u32 p, %laneid, 20; selp.b64 h, %g, 0, p;
        mov.u32 %o0, 9; @p tex.1d.v4.f32.s32 {%o0, %o1, %o2, %o3}, [h, {%i0}];
        @!p bra out; tex.1d.v4.f32.s32 {%o1, _, _, _}, [h, {%i0}]; out: mov.u32 %o2, %laneid;";
    for isa in isas() {
        let left = run(&image, text, std::slice::from_ref(&at), isa);
        for place in 0..32 {
            let want = image.fetch(&[place as i32 % 7], None)[0] as f32;
            let want = if place < 20 { want.to_bits() } else { 9 };
            assert_eq!(left.outputs[0][place], u64::from(want), "{isa:?}");
            assert_eq!(left.outputs[2][place], place as u64);
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    lookups(&mut tests);
    fetches(&mut tests);
    gathers(&mut tests);
    spellings(&mut tests);
    tests.push(Test::check(vec!["tex.1d.v4.f32.s32".into()], guarded));
    tests
}
