//! Loads from and stores to surfaces, against the expected bytes.

use crate::texels::{DATA, Image};
use crate::vector::Test;
use crate::warp::{EMPTY, Random, Register, Warp, isas};
use bus_schemas::{Channel, TextureShape};

/// A geometry: its name, true for layers, sizes of a surface.
type Geometry = (&'static str, bool, [u32; 3]);

const GEOMETRIES: [Geometry; 5] = [
    ("1d", false, [40, 0, 0]),
    ("2d", false, [20, 5, 0]),
    ("3d", false, [16, 3, 4]),
    ("a1d", true, [16, 0, 4]),
    ("a2d", true, [8, 3, 4]),
];

const BOUNDS: [&str; 3] = ["trap", "clamp", "zero"];

fn surface(
    (_, layered, sizes): Geometry,
    format: (u32, u32, Channel),
    numbers: &mut Random,
) -> Image {
    let shape = if layered {
        TextureShape::Layered
    } else {
        TextureShape::Array
    };
    let mut image = Image::random(shape, sizes, format, numbers);
    image.texture.surface = true;
    image.texture.address += 16;
    image.buffer.extend([0xaa; 64]);
    image.describe();
    image
}

/// Coordinates of lanes: the layer first if there are layers, then `x` in steps of `step`.
fn places(
    (_, layered, sizes): Geometry,
    (count, step): (i64, i64),
    bounds: &str,
    numbers: &mut Random,
) -> Vec<[i32; 32]> {
    let counts = [count, i64::from(sizes[1]), i64::from(sizes[2])];
    let mut place = |axis: usize| {
        let count = counts[axis];
        let step = if axis == 0 { step } else { 1 };
        std::array::from_fn(|_| {
            let at = if bounds == "trap" {
                numbers.below(count as u64) as i64
            } else {
                numbers.below(3 * count as u64) as i64 - count
            };
            (at * step) as i32
        })
    };
    let mut out = Vec::new();
    if layered {
        out.push(place(2));
    }
    out.push(place(0));
    out.extend(
        (1..3)
            .filter(|at| sizes[*at] > 0 && !(layered && *at == 2))
            .map(place),
    );
    out
}

/// Offset of a lane's access in the buffer; `last` is the last possible `x`, `step` its bytes.
fn spot(
    image: &Image,
    (_, layered, sizes): Geometry,
    (last, step): (i64, i64),
    bounds: &str,
    at: &[i32],
) -> Option<usize> {
    let mut place = at.iter().map(|at| i64::from(*at)).collect::<Vec<_>>();
    // A layer is an unsigned number.
    if layered {
        let layer = i64::from(place.remove(0) as u32);
        place.resize(2, 0);
        place.push(layer);
    }
    place.resize(3, 0);
    let ends = [
        last,
        i64::from(sizes[1].max(1)) - 1,
        i64::from(sizes[2].max(1)) - 1,
    ];
    for (at, end) in place.iter_mut().zip(ends) {
        if (0..=end).contains(at) {
            continue;
        }
        match bounds {
            "clamp" => *at = (*at).clamp(0, end),
            _ => return None,
        }
    }
    let t = &image.texture;
    let start = DATA + 16 + (place[0] * step) as usize;
    Some(start + place[1] as usize * t.pitch as usize + place[2] as usize * t.slice as usize)
}

/// `{%i0, …}`: four elements where the ISA has four.
fn list(registers: usize) -> String {
    let mut names: Vec<String> = (0..registers).map(|at| format!("%i{at}")).collect();
    if registers == 3 {
        names.push("%i0".into());
    }
    format!("{{{}}}", names.join(", "))
}

fn named(letter: char, first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count)
        .map(|at| format!("%{letter}{at}"))
        .collect();
    match count {
        1 => names[0].clone(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}

fn words(lanes: &[i32; 32]) -> Register {
    Register::words(lanes.map(|at| at as u32))
}

/// One form without conversion.
fn plain(form: &str, geometry: Geometry, (bits, count): (usize, usize), bounds: &str) {
    let mut numbers = Random::new(form.len() as u64 + 3);
    let size = bits / 8;
    let bytes = (size * count) as i64;
    let image = surface(geometry, (4, 32, Channel::Unsigned), &mut numbers);
    let row = i64::from(image.texture.width) * 16;
    let at = places(geometry, (row / bytes, bytes), bounds, &mut numbers);
    let write = form.starts_with("sust");
    let mut inputs: Vec<Register> = at.iter().map(words).collect();
    let held = bits.max(32) as u32;
    let coordinates = list(at.len());
    let text = if write {
        let first = inputs.len();
        let ones = u64::MAX >> (64 - held);
        inputs.extend((0..count).map(|_| Register {
            bits: held,
            lanes: std::array::from_fn(|_| numbers.next() & ones),
        }));
        format!("{form} [%g, {coordinates}], {};", named('i', first, count))
    } else {
        format!("{form} {}, [%g, {coordinates}];", named('o', 0, count))
    };
    let (mut want, mut results) = (image.buffer.clone(), vec![[0; 32]; count]);
    for lane in 0..32 {
        let place: Vec<i32> = at.iter().map(|lanes| lanes[lane]).collect();
        let Some(at) = spot(&image, geometry, (row - bytes, 1), bounds, &place) else {
            continue;
        };
        for (part, result) in results.iter_mut().enumerate() {
            let piece = &mut want[at + part * size..][..size];
            if write {
                let value = inputs[inputs.len() - count + part].lanes[lane];
                piece.copy_from_slice(&value.to_le_bytes()[..size]);
            } else {
                let value = piece.iter().rev();
                result[lane] = value.fold(0, |all, byte| all << 8 | u64::from(*byte));
            }
        }
    }
    let outputs = vec![held; if write { 0 } else { count }];
    for isa in isas() {
        let warp = Warp {
            text: &text, inputs: &inputs, outputs: &outputs, buffer: &image.buffer,
            ..EMPTY
        };
        let left = warp.run(isa);
        assert!(left.buffer[..want.len()] == want, "{text} {isa:?}");
        assert!(write || left.outputs == results, "{text} {isa:?}");
    }
}

fn all(tests: &mut Vec<Test>) {
    let widths = [(8, "b8"), (16, "b16"), (32, "b32"), (64, "b64")];
    for geometry in GEOMETRIES {
        for (bits, ty) in widths {
            for (count, vector) in [(1, ""), (2, ".v2"), (4, ".v4")] {
                for bounds in BOUNDS {
                    if bits * count > 128 {
                        continue;
                    }
                    for head in ["suld", "sust"] {
                        let name = geometry.0;
                        let form = format!("{head}.b.{name}{vector}.{ty}.{bounds}");
                        let text = form.clone();
                        let check = move || plain(&text, geometry, (bits, count), bounds);
                        tests.push(Test::check(vec![form], check));
                    }
                }
            }
        }
    }
}

/// Bits that a formatted store writes for a value in a channel.
fn converted((_, bits, channel): (u32, u32, Channel), scaled: bool, value: u32) -> u64 {
    let float = f64::from(f32::from_bits(value));
    let span = 2_f64.powi(bits as i32);
    let whole = |float: f64| float.round_ties_even() as i64 as u64;
    match (channel, bits) {
        (Channel::Float, 16) => crate::fragments::half(float),
        (Channel::Unsigned, 8 | 16) if scaled => whole(float.clamp(0.0, 1.0) * (span - 1.0)),
        (Channel::Signed, 8 | 16) if scaled => whole(float.clamp(-1.0, 1.0) * (span / 2.0 - 1.0)),
        _ => u64::from(value),
    }
}

/// Formatted stores: elements by their number, channels converted.
fn formatted(form: &str, geometry: Geometry, count: usize, bounds: &str) {
    let mut numbers = Random::new(form.len() as u64 + 41);
    let formats = [
        ((4, 8, Channel::Unsigned), true),
        ((2, 16, Channel::Signed), true),
        ((4, 16, Channel::Float), false),
        ((4, 32, Channel::Float), false),
        ((2, 8, Channel::Signed), false),
        ((1, 32, Channel::Unsigned), false),
    ];
    for (format, scaled) in formats {
        let mut image = surface(geometry, format, &mut numbers);
        image.texture.normalized_read = scaled;
        image.describe();
        let width = i64::from(image.texture.width);
        let at = places(geometry, (width, 1), bounds, &mut numbers);
        let mut inputs: Vec<Register> = at.iter().map(words).collect();
        let first = inputs.len();
        let floats = scaled || format.2 == Channel::Float;
        inputs.extend((0..count).map(|_| {
            Register::words(std::array::from_fn(|_| match floats {
                true => ((numbers.below(4096) as f32 - 2048.0) / 1500.0).to_bits(),
                false => numbers.word(),
            }))
        }));
        let text = format!(
            "{form} [%g, {}], {};",
            list(first),
            named('i', first, count)
        );
        let mut want = image.buffer.clone();
        let (element, size) = (image.texture.element() as i64, format.1 as usize / 8);
        for lane in 0..32 {
            let place: Vec<i32> = at.iter().map(|lanes| lanes[lane]).collect();
            let Some(at) = spot(&image, geometry, (width - 1, element), bounds, &place) else {
                continue;
            };
            for part in 0..format.0 as usize {
                let value = inputs.get(first + part).map(|it| it.lanes[lane] as u32);
                let value = value.map_or(0, |value| converted(format, scaled, value));
                want[at + part * size..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        for isa in isas() {
            let warp = Warp { text: &text, inputs: &inputs, buffer: &image.buffer, ..EMPTY };
            assert!(
                warp.run(isa).buffer[..want.len()] == want,
                "{text} {isa:?} {format:?}"
            );
        }
    }
}

fn all_formatted(tests: &mut Vec<Test>) {
    for geometry in GEOMETRIES {
        for (count, vector) in [(1, ""), (2, ".v2"), (4, ".v4")] {
            for bounds in BOUNDS {
                let form = format!("sust.p.{}{vector}.b32.{bounds}", geometry.0);
                let text = form.clone();
                let check = move || formatted(&text, geometry, count, bounds);
                tests.push(Test::check(vec![form], check));
            }
        }
    }
}

/// Accesses that trap, and misaligned ones.
fn outside() {
    let mut numbers = Random::new(43);
    let image = surface(GEOMETRIES[1], (1, 32, Channel::Unsigned), &mut numbers);
    let cases = [
        (80, 0, "outside the surface"),
        (77, 0, "outside the surface"),
        (-4, 0, "outside the surface"),
        (0, 5, "outside the surface"),
        (0, -1, "outside the surface"),
        (2, 0, "misaligned"),
    ];
    for (x, y, words) in cases {
        for text in [
            format!("suld.b.2d.b32.trap %o0, [%g, {{{x}, {y}}}];"),
            format!("sust.b.2d.b32.trap [%g, {{{x}, {y}}}], %o0;"),
        ] {
            let warp = Warp { text: &text, outputs: &[32], buffer: &image.buffer, ..EMPTY };
            for isa in isas() {
                let said = warp.result(isa).expect_err(&text).to_string();
                assert!(said.contains(words), "{text}: {said}");
            }
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    all(&mut tests);
    all_formatted(&mut tests);
    tests.push(Test::check(Vec::new(), outside));
    tests
}
