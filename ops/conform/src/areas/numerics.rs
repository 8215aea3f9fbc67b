//! Conversions between all types of numbers: each instruction of PTX on chosen operands, against the host.

mod kinds;

use std::cmp::Ordering;
use std::ffi::CString;

use crate::bench::Bench;
use crate::check::Check;
use crate::driver::words;
use crate::finding::{Finding, Outcome, ensure};
use kinds::{FLOATS, INTEGERS, Kind, ROUNDINGS, Rounding, as_bits, nearest_half};

const CVT: (&str, &str) = ("cvt", "PTX ISA: Data Movement and Conversion Instructions");

const WHOLE: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];
const VALUES: [f64; 20] = [
    0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.999, -0.999, 3.25, -100.75, 127.5, 128.5, 255.5, -129.0,
    32_767.5, 65_504.0, -40_000.0, 3.0e9, -1.0e19, 2.0e19,
];

/// An instruction, its operands, and the expected result of each.
struct Conversion {
    instruction: String,
    from: Kind,
    to: Kind,
    rows: Vec<(u64, u64)>,
}

fn between_integers(from: Kind, to: Kind, saturates: bool) -> Conversion {
    let sat = if saturates { ".sat" } else { "" };
    let convert = |word: u64| {
        let number = from.number(word);
        let (least, most) = to.range();
        let made = if saturates {
            number.clamp(least, most)
        } else {
            number
        };
        (from.cut(word), to.cut(made as u64))
    };
    Conversion {
        instruction: format!("cvt{sat}.{}.{}", to.name(), from.name()),
        from,
        to,
        rows: WHOLE.map(convert).to_vec(),
    }
}

fn to_integer(from: Kind, to: Kind, rounding: Rounding) -> Conversion {
    let convert = |value: f64| {
        let word = as_bits(from, value);
        let (least, most) = to.range();
        // A value out of range becomes the nearest one in range. No operand has more bits than an
        // i128.
        let whole = rounding.whole(from.value(word)) as i128;
        (word, to.cut(whole.clamp(least, most) as u64))
    };
    let letter = rounding.letter();
    Conversion {
        instruction: format!("cvt.r{letter}i.{}.{}", to.name(), from.name()),
        from,
        to,
        rows: VALUES.map(convert).to_vec(),
    }
}

/// Rounds an exact value to a number of a kind: `nearest`, moved by one step if the rounding
/// requires it. `beyond` compares a number's value with the exact one.
fn rounded(nearest: u64, to: Kind, rounding: Rounding, beyond: impl Fn(f64) -> Ordering) -> u64 {
    let value = to.value(nearest);
    let negative = value.is_sign_negative();
    // Magnitudes are ordered by their bits: a step down is towards zero, and from infinity to the
    // largest number.
    let moves = match (rounding, beyond(value)) {
        (Rounding::Nearest, _) | (_, Ordering::Equal) => 0,
        (Rounding::Zero, Ordering::Greater) => {
            if negative {
                0
            } else {
                -1
            }
        }
        (Rounding::Zero, Ordering::Less) => {
            if negative {
                -1
            } else {
                0
            }
        }
        (Rounding::Down, Ordering::Greater) => {
            if negative {
                1
            } else {
                -1
            }
        }
        (Rounding::Up, Ordering::Less) => {
            if negative {
                -1
            } else {
                1
            }
        }
        (Rounding::Down | Rounding::Up, _) => 0,
    };
    nearest.wrapping_add_signed(moves)
}

/// Compares a number's value with a whole number.
fn beyond_whole(value: f64, exact: i128) -> Ordering {
    match value.is_infinite() {
        true => value.total_cmp(&0.0),
        // Neighbours of a 64-bit number are whole, or small enough for an exact comparison.
        false if value.fract() == 0.0 => (value as i128).cmp(&exact),
        false => value.total_cmp(&(exact as f64)),
    }
}

fn to_float(from: Kind, to: Kind, rounding: Rounding) -> Conversion {
    let convert = |word: u64| {
        let number = from.number(word);
        let nearest = match to.bits() {
            // Converted from the number itself, so that no value is rounded twice.
            32 => u64::from((number as f32).to_bits()),
            64 => (number as f64).to_bits(),
            _ => u64::from(nearest_half(number as f64)),
        };
        let made = rounded(nearest, to, rounding, |value| beyond_whole(value, number));
        (from.cut(word), made)
    };
    let letter = rounding.letter();
    Conversion {
        instruction: format!("cvt.r{letter}.{}.{}", to.name(), from.name()),
        from,
        to,
        rows: WHOLE.map(convert).to_vec(),
    }
}

/// Converts to a wider kind, which represents every value.
fn widened(from: Kind, to: Kind) -> Conversion {
    let convert = |value: f64| {
        let word = as_bits(from, value);
        (word, as_bits(to, from.value(word)))
    };
    Conversion {
        instruction: format!("cvt.{}.{}", to.name(), from.name()),
        from,
        to,
        rows: VALUES.map(convert).to_vec(),
    }
}

fn narrowed(from: Kind, to: Kind, rounding: Rounding) -> Conversion {
    let convert = |value: f64| {
        let word = as_bits(from, value);
        let exact = from.value(word);
        let made = rounded(as_bits(to, exact), to, rounding, |it| it.total_cmp(&exact));
        (word, made)
    };
    let letter = rounding.letter();
    Conversion {
        instruction: format!("cvt.r{letter}.{}.{}", to.name(), from.name()),
        from,
        to,
        rows: VALUES.map(convert).to_vec(),
    }
}

/// Rounds to a whole number of the same kind.
fn made_whole(kind: Kind, rounding: Rounding) -> Conversion {
    let convert = |value: f64| {
        let word = as_bits(kind, value);
        (word, as_bits(kind, rounding.whole(kind.value(word))))
    };
    let letter = rounding.letter();
    Conversion {
        instruction: format!("cvt.r{letter}i.{0}.{0}", kind.name()),
        from: kind,
        to: kind,
        rows: VALUES.map(convert).to_vec(),
    }
}

fn conversions() -> Vec<Conversion> {
    let mut all = Vec::new();
    for from in INTEGERS {
        for to in INTEGERS {
            if from != to {
                all.push(between_integers(from, to, false));
                all.push(between_integers(from, to, true));
            }
        }
        for to in FLOATS {
            all.extend(ROUNDINGS.map(|rounding| to_float(from, to, rounding)));
        }
    }
    for from in FLOATS {
        for to in INTEGERS {
            all.extend(ROUNDINGS.map(|rounding| to_integer(from, to, rounding)));
        }
        for to in FLOATS {
            match to.bits().cmp(&from.bits()) {
                Ordering::Less => all.extend(ROUNDINGS.map(|it| narrowed(from, to, it))),
                Ordering::Equal => all.extend(ROUNDINGS.map(|it| made_whole(from, it))),
                Ordering::Greater => all.push(widened(from, to)),
            }
        }
    }
    all
}

impl Conversion {
    /// A kernel that converts each of 32 words: convert(u64 to, u64 from).
    fn kernel(&self) -> String {
        let ((read, read_bits), (written, written_bits)) =
            (self.from.register(), self.to.register());
        let mask = u64::MAX >> (64 - self.to.bits());
        format!(
            ".version 7.0\n.target sm_53\n.address_size 64\n\
             .visible .entry convert(.param .u64 to, .param .u64 from)\n{{\n\
             .reg .b32 %r;\n.reg .b64 %d<6>;\n.reg .{read} %in;\n.reg .{written} %out;\n\
             ld.param.u64 %d0, [to];\nld.param.u64 %d1, [from];\n\
             mov.u32 %r, %tid.x;\ncvt.u64.u32 %d2, %r;\nshl.b64 %d2, %d2, 3;\n\
             add.s64 %d0, %d0, %d2;\nadd.s64 %d1, %d1, %d2;\n\
             ld.global.b{read_bits} %in, [%d1];\n{} %out, %in;\n\
             mov.u64 %d3, 0;\nst.global.u64 [%d0], %d3;\nst.global.b{written_bits} [%d0], %out;\n\
             ld.global.u64 %d4, [%d0];\nand.b64 %d4, %d4, {mask};\nst.global.u64 [%d0], %d4;\n\
             ret;\n}}\n",
            self.instruction
        )
    }

    fn hold(&self, bench: &Bench) -> Outcome {
        let image = CString::new(self.kernel()).map_err(|it| Finding(it.to_string()))?;
        let module = bench.made("cuModuleLoadData", words![image.as_c_str()])?;
        let kernel = bench.made("cuModuleGetFunction", words![module, c"convert"])?;
        let (to, from) = (bench.alloc(256)?, bench.alloc(256)?);
        let mut operands: Vec<u64> = self.rows.iter().map(|(operand, _)| *operand).collect();
        operands.resize(32, 0);
        bench.write(from, &operands)?;
        bench.launch(kernel, 1, 32, &[to, from])?;
        let made = bench.read::<u64>(to, self.rows.len())?;
        bench.ok("cuModuleUnload", words![module])?;
        for ((operand, wanted), made) in self.rows.iter().zip(made) {
            ensure!(
                made == *wanted,
                "of {operand:#x} it makes {made:#x}, not {wanted:#x}"
            );
        }
        Ok(())
    }
}

pub(super) fn checks() -> Vec<Check> {
    let all = conversions().into_iter();
    all.map(|conversion| {
        let claim = format!("{} is as the host rounds", conversion.instruction);
        Check::new(CVT, claim, move |it| conversion.hold(it))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::kinds::Kind::Float;
    use super::*;

    #[test]
    fn a_rounding_takes_the_number_on_its_side() {
        let of = |exact: i128, rounding| {
            let nearest = u64::from((exact as f32).to_bits());
            let made = rounded(nearest, Float(32), rounding, |it| beyond_whole(it, exact));
            f32::from_bits(made as u32)
        };
        let (below, above) = (16_777_216.0, 16_777_218.0);
        for (rounding, positive, negative) in [
            (Rounding::Nearest, below, -below),
            (Rounding::Zero, below, -below),
            (Rounding::Down, below, -above),
            (Rounding::Up, above, -below),
        ] {
            assert!(of(16_777_217, rounding) == positive && of(-16_777_217, rounding) == negative);
            assert!(of(0, rounding) == 0.0 && of(5, rounding) == 5.0);
        }
        let half = |exact: i128, rounding| {
            let nearest = u64::from(nearest_half(exact as f64));
            rounded(nearest, Float(16), rounding, |it| beyond_whole(it, exact))
        };
        assert_eq!(half(70_000, Rounding::Nearest), 0x7c00);
        assert_eq!(half(70_000, Rounding::Zero), 0x7bff);
        assert_eq!(half(-70_000, Rounding::Up), 0xfbff);
    }
}
