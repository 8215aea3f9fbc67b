//! Textures and surfaces, through which kernels read and write arrays.

use std::ffi::CString;

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::INVALID_VALUE;
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};

const TEXTURES: &str = "Texture Object Management";
const SURFACES: &str = "Surface Object Management";
const KERNELS: &str = include_str!("../textures.ptx");
/// Texels per row, and number of rows.
const WIDTH: usize = 8;
const HEIGHT: usize = 4;
/// `CU_TR_ADDRESS_MODE_*`.
const WRAP: u32 = 0;
const CLAMP: u32 = 1;
const MIRROR: u32 = 2;
const BORDER: u32 = 3;
/// `CU_TR_FILTER_MODE_*`.
const POINT: u32 = 0;
const LINEAR: u32 = 1;
/// `CU_TRSF_NORMALIZED_COORDINATES`.
const NORMALIZED: u32 = 2;

/// Parameters of reading a texture: the first fields of `CUDA_TEXTURE_DESC`.
#[derive(Clone, Copy)]
struct Sampling {
    address: u32,
    filter: u32,
    flags: u32,
    /// Colour outside the edge.
    border: f32,
}

impl Sampling {
    fn descriptor(self) -> [u32; 32] {
        let mut words = [0u32; 32];
        words[..3].fill(self.address);
        (words[3], words[4]) = (self.filter, self.flags);
        // Then follow anisotropy, filter, bias and clamps of levels, then the border's colour.
        words[10..14].fill(self.border.to_bits());
        words
    }
}

/// The value of a texel.
fn texel(x: usize, y: usize) -> f32 {
    (10 * y + x) as f32
}

fn module(bench: &Bench) -> Result<u64, Finding> {
    let image = CString::new(KERNELS).map_err(|it| Finding(it.to_string()))?;
    bench.made("cuModuleLoadData", words![image.as_c_str()])
}

/// Calls a body with an array of floats with the values of [`texel`], and its resource descriptor.
fn with_resource(bench: &Bench, body: impl FnOnce(u64, &[u64; 18]) -> Outcome) -> Outcome {
    // Loads and stores by surface are allowed.
    let descriptor: [u64; 5] = [WIDTH as u64, HEIGHT as u64, 0, 0x20 | 1 << 32, 2];
    let array = bench.made("cuArray3DCreate_v2", words![&descriptor])?;
    let texels: Vec<f32> = (0..WIDTH * HEIGHT)
        .map(|at| texel(at % WIDTH, at / WIDTH))
        .collect();
    let mut resource = [0u64; 18];
    resource[1] = array;
    let seen = copy_rows(
        bench,
        (texels.as_ptr().expose_provenance() as u64, 1),
        (array, 3),
    )
    .and_then(|()| body(array, &resource));
    bench.ok("cuArrayDestroy", words![array])?;
    seen
}

/// Copies all rows between host memory and an array, each given with its memory type.
fn copy_rows(bench: &Bench, from: (u64, u64), to: (u64, u64)) -> Outcome {
    // Each side of `CUDA_MEMCPY2D`: x, y, kind, host, device, array, pitch.
    let side = |(place, kind): (u64, u64)| {
        let (host, array) = if kind == 1 { (place, 0) } else { (0, place) };
        [0, 0, kind, host, 0, array, 4 * WIDTH as u64]
    };
    let mut copy = [0u64; 16];
    copy[..7].copy_from_slice(&side(from));
    copy[7..14].copy_from_slice(&side(to));
    copy[14..].copy_from_slice(&[4 * WIDTH as u64, HEIGHT as u64]);
    bench.ok("cuMemcpy2D_v2", words![&copy])
}

/// Values that a kernel reads at coordinates of a texture.
fn sampled(bench: &Bench, sampling: Sampling, places: &[(f32, f32)]) -> Result<Vec<f32>, Finding> {
    let module = module(bench)?;
    let kernel = bench.made("cuModuleGetFunction", words![module, c"sample"])?;
    let (to, at) = (
        bench.alloc(4 * places.len())?,
        bench.alloc(8 * places.len())?,
    );
    let flat: Vec<f32> = places.iter().flat_map(|(x, y)| [*x, *y]).collect();
    bench.write(at, &flat)?;
    let mut read = Vec::new();
    with_resource(bench, |_, resource| {
        let texture = bench.made(
            "cuTexObjectCreate",
            words![resource, &sampling.descriptor(), Word::NULL],
        )?;
        let seen = bench
            .launch(kernel, 1, 32, &[to, texture, at, places.len() as u64])
            .and_then(|()| bench.sync());
        bench.ok("cuTexObjectDestroy", words![texture])?;
        seen?;
        read = bench.read::<f32>(to, places.len())?;
        Ok(())
    })?;
    bench.ok("cuModuleUnload", words![module])?;
    Ok(read)
}

/// A check of the values read at coordinates.
fn reads(claim: &'static str, sampling: Sampling, rows: &'static [((f32, f32), f32)]) -> Check {
    Check::new(("cuTexObjectCreate", TEXTURES), claim, move |it| {
        let places: Vec<(f32, f32)> = rows.iter().map(|(place, _)| *place).collect();
        let read = sampled(it, sampling, &places)?;
        for ((place, wanted), read) in rows.iter().zip(read) {
            ensure!(
                (read - wanted).abs() < 0.01,
                "{read} at {place:?}, not {wanted}"
            );
        }
        Ok(())
    })
}

const PLAIN: Sampling = Sampling {
    address: CLAMP,
    filter: POINT,
    flags: 0,
    border: 0.0,
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        reads(
            "a point is the texel that it lies in",
            PLAIN,
            &[((0.5, 0.5), 0.0), ((3.99, 2.01), 23.0), ((7.5, 3.5), 37.0)],
        ),
        reads(
            "beyond the edge is the edge, where addresses are clamped",
            PLAIN,
            &[((-5.0, 0.5), 0.0), ((99.0, 1.5), 17.0), ((2.5, 99.0), 32.0)],
        ),
        reads(
            "beyond the edge is the border's colour, where there is a border",
            Sampling {
                address: BORDER,
                border: 9.5,
                ..PLAIN
            },
            &[((-0.5, 0.5), 9.5), ((8.5, 1.5), 9.5), ((7.5, 1.5), 17.0)],
        ),
        reads(
            "between texels lies what lies between their values, where the filter is linear",
            Sampling {
                filter: LINEAR,
                ..PLAIN
            },
            &[
                ((1.0, 0.5), 0.5),
                ((1.25, 0.5), 0.75),
                ((2.5, 1.0), 7.0),
                ((1.0, 1.0), 5.5),
            ],
        ),
        reads(
            "coordinates from 0 to 1 are the whole, where they are normalized",
            Sampling {
                flags: NORMALIZED,
                ..PLAIN
            },
            &[
                ((0.0625, 0.125), 0.0),
                ((0.9375, 0.875), 37.0),
                ((0.5, 0.5), 24.0),
            ],
        ),
        reads(
            "normalized coordinates go round, where addresses wrap",
            Sampling {
                address: WRAP,
                flags: NORMALIZED,
                ..PLAIN
            },
            &[((1.0625, 0.125), 0.0), ((-0.0625, 1.375), 17.0)],
        ),
        reads(
            "normalized coordinates go back, where addresses are mirrored",
            Sampling {
                address: MIRROR,
                flags: NORMALIZED,
                ..PLAIN
            },
            &[((1.0625, 0.125), 7.0), ((-0.0625, 0.375), 10.0)],
        ),
    ];
    checks.extend(told());
    checks
}

fn told() -> Vec<Check> {
    let of = |function| (function, TEXTURES);
    vec![
        Check::new(
            of("cuTexObjectGetResourceDesc"),
            "it is as it was given",
            |it| {
                with_resource(it, |_, resource| {
                    let rest = words![resource, &PLAIN.descriptor(), Word::NULL];
                    let texture = it.made("cuTexObjectCreate", rest)?;
                    let mut told = [0u64; 18];
                    let words = words![&mut told, texture];
                    let seen = it.ok("cuTexObjectGetResourceDesc", words);
                    it.ok("cuTexObjectDestroy", words![texture])?;
                    seen?;
                    ensure!(told[..2] == resource[..2], "{:x?}", &told[..2]);
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuTexObjectCreate"),
            "a resource of a kind that there is not is refused",
            |it| {
                let (mut texture, mut resource) = (0u64, [0u64; 18]);
                resource[0] = 77;
                let words = words![&mut texture, &resource, &PLAIN.descriptor(), Word::NULL];
                it.expect(INVALID_VALUE, "cuTexObjectCreate", words)
            },
        ),
        Check::new(
            ("cuSurfObjectCreate", SURFACES),
            "a kernel writes to an array",
            |it| {
                let module = module(it)?;
                let kernel = it.made("cuModuleGetFunction", words![module, c"store"])?;
                let mut back = [0f32; WIDTH * HEIGHT];
                with_resource(it, |array, resource| {
                    let surface = it.made("cuSurfObjectCreate", words![resource])?;
                    let value = u64::from(55.5f32.to_bits());
                    // The column is in bytes.
                    let seen = it
                        .launch(kernel, 1, 1, &[surface, 4 * 3, 2, value])
                        .and_then(|()| it.sync());
                    it.ok("cuSurfObjectDestroy", words![surface])?;
                    seen?;
                    let to = back.as_mut_ptr().expose_provenance() as u64;
                    copy_rows(it, (array, 3), (to, 1))
                })?;
                it.ok("cuModuleUnload", words![module])?;
                let wrong = (0..WIDTH * HEIGHT).find(|at| {
                    let (x, y) = (at % WIDTH, at / WIDTH);
                    let wanted = if (x, y) == (3, 2) { 55.5 } else { texel(x, y) };
                    back[*at].to_bits() != wanted.to_bits()
                });
                ensure!(wrong.is_none(), "texel {wrong:?} of {back:?}");
                Ok(())
            },
        ),
    ]
}
