//! Names of kernels for people: those of C++ without parameters and return type, and without the tags that Numba adds.
//!
//! Tenants choose the names of their kernels. So the input is bounded in length and depth, and the output in length. A
//! name on which the library panics stays as it is.

use std::fmt;
use std::panic::catch_unwind;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Maximum number of bytes of a name that is demangled.
const LONGEST: usize = 512;
/// Maximum depth of a name. The parser tries some alternatives one after the other, so its time may double every few
/// levels.
const DEEPEST: u32 = 40;
/// Maximum depth of what is written, which follows references to earlier parts of the name.
const DEEPEST_WRITTEN: u32 = 128;
/// Maximum number of bytes that are written, tags included.
const WRITTEN: usize = 2_048;
/// Maximum number of characters of the result.
const SHOWN: usize = 96;
/// The beginning of a tag, which ends with a bracket.
const TAG: &str = "[abi:";

/// Text up to a maximum length.
#[derive(Debug, Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > WRITTEN {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

/// Returns the name of a C++ function without its parameters and return type; `None` if it is another kind of name.
pub(crate) fn demangled(name: &str) -> Option<String> {
    if !name.starts_with("_Z") || name.len() > LONGEST {
        return None;
    }
    let written = catch_unwind(|| written(name)).ok().flatten()?;
    let text = without_tags(&written.text);
    if text.is_empty() {
        return None;
    }
    if !written.is_full && text.chars().count() <= SHOWN {
        return Some(text);
    }
    let cut = text.chars().take(SHOWN - 1);
    Some(cut.chain(['…']).collect())
}

/// Returns the name as the library writes it, as far as it fits.
fn written(name: &str) -> Option<Bounded> {
    let parsing = ParseOptions::default().recursion_limit(DEEPEST);
    let symbol = Symbol::new_with_options(name.as_bytes(), &parsing).ok()?;
    let writing = DemangleOptions::new()
        .no_params()
        .no_return_type()
        .hide_expression_literal_types()
        .recursion_limit(DEEPEST_WRITTEN);
    let mut written = Bounded::default();
    let ended = symbol.structured_demangle(&mut written, &writing);
    (ended.is_ok() || written.is_full).then_some(written)
}

fn without_tags(text: &str) -> String {
    let mut parts = text.split(TAG);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part.split_once(']').map_or("", |(_, after)| after);
        plain.push_str(after);
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn functions_of_cpp_and_numba_are_shown_without_parameters_tags_and_return_type() {
        for (name, shown) in [
            ("_Z5scalePfi", "scale"),
            ("_ZL5scalePfi", "scale"),
            ("_ZN5space5scaleEPfi", "space::scale"),
            ("_Z3addIfEvPT_S1_", "add<float>"),
            (
                "_ZN12_GLOBAL__N_14kernILi4EEEvPf",
                "(anonymous namespace)::kern<4>",
            ),
            (
                "_ZN6cudapy8__main__3addB2v1B4c8tJE5ArrayIfLi1E1C7mutable7alignedE",
                "cudapy::__main__::add",
            ),
        ] {
            assert_eq!(demangled(name).as_deref(), Some(shown), "{name}");
        }
    }

    #[test]
    fn other_names_stay() {
        let others = ["", "f", "add", "add_kernel", "_Z", "_ZN", "_Z5scal", "_Zé"];
        for name in others {
            assert_eq!(demangled(name), None, "{name}");
        }
    }

    #[test]
    fn a_long_name_is_cut() {
        let name = format!("_Z200{}v", "a".repeat(200));
        let shown = format!("{}…", "a".repeat(SHOWN - 1));
        assert_eq!(demangled(&name), Some(shown));
        let whole = format!("_Z96{}v", "a".repeat(96));
        assert_eq!(demangled(&whole), Some("a".repeat(96)));
        let longest = format!("_Z3000{}v", "a".repeat(3_000));
        assert!(demangled(&longest).is_none_or(|it| it.chars().count() <= SHOWN));
        let longer = format!("_Z5000{}v", "a".repeat(5_000));
        assert_eq!(demangled(&longer), None);
    }

    #[test]
    fn hostile_names_take_little_time_and_room() {
        assert_eq!(demangled(&format!("_Z1f{}i", "P".repeat(3_000))), None);
        // Each alternative of the parser fails at the end, at any depth.
        for depth in 1..100 {
            let name = format!("_Z1fI{}?", "S_I".repeat(depth));
            assert_eq!(demangled(&name), None, "{name}");
        }
        // The type of a conversion is parsed twice at each level of its arguments.
        let conversion = format!("_Zcv{}iE{}IiEv", "T_I".repeat(15), "IiEE".repeat(14));
        let begun = std::time::Instant::now();
        assert_eq!(demangled(&conversion), None);
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
        // Each argument is twice as long as the one before.
        let digits = ('1'..='9').chain('A'..='Z');
        let pairs: String = digits.map(|at| format!("S0_IS{at}_S{at}_E")).collect();
        let name = format!("_Z1fI1AIiiE{pairs}Evv");
        assert!(demangled(&name).is_none_or(|it| it.chars().count() <= SHOWN));
    }

    /// Parts of mangled names.
    const PARTS: &[&str] = &[
        "N", "I", "J", "E", "S_", "S0_", "S1_", "St", "T_", "L", "X", "Z", "1a", "3abc", "P", "R",
        "K", "F", "A", "M", "i", "f", "v", "cv", "cl", "C1", "D1", "Dp", "DT", "Ul", "B1v", "U",
        "_", "0", "n", "sr", "é",
    ];

    proptest! {
        #[test]
        fn whatever_comes_the_result_is_bounded(
            parts in prop::collection::vec(prop::sample::select(PARTS), 0..80)
        ) {
            let shown = demangled(&format!("_Z{}", parts.concat()));
            prop_assert!(shown.is_none_or(|it| (1..=SHOWN).contains(&it.chars().count())));
        }
    }
}
