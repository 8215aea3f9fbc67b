//! Modules with much of one thing load, and their cost grows no faster than their size.

mod shapes;

use std::sync::atomic::{AtomicU64, Ordering};

use device::{Halt, Watch};
use device_cpu::{BuildError, Isa, Program};

#[test]
fn modules_with_much_of_anything_load() {
    for (name, make) in shapes::SHAPES {
        if let Err(error) = Program::build(&make(3_000)) {
            panic!("{name}: {error}");
        }
    }
}

/// Counts the bytes that it is asked about, and refuses after `most` questions.
#[derive(Default)]
struct Counting {
    bytes: AtomicU64,
    questions: AtomicU64,
    most: Option<u64>,
}

impl Watch for Counting {
    fn goes_on(&self, bytes: u64) -> Result<(), Halt> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let asked = self.questions.fetch_add(1, Ordering::Relaxed);
        match self.most {
            Some(most) if asked >= most => Err(Halt::Unwanted),
            _ => Ok(()),
        }
    }
}

fn taken(text: &str) -> u64 {
    let watch = Counting::default();
    let built = Program::build_watched(text.as_bytes(), Isa::Avx2, &watch);
    assert!(built.is_ok(), "{built:?}");
    watch.bytes.into_inner()
}

#[test]
fn what_a_module_takes_grows_no_faster_than_it_does() {
    for (name, make) in shapes::SHAPES {
        let (small, large) = (make(1_000), make(10_000));
        let longer = large.len() as f64 / small.len() as f64;
        let (before, after) = (taken(&small) as f64, taken(&large) as f64);
        // Each watch is asked once a fixed number of bytes has been added.
        let most = 1.5 * longer * before + f64::from(1 << 20);
        assert!(
            after < most,
            "{name}: {before} and {after} for a text x{longer:.1}"
        );
    }
}

#[test]
fn preparing_can_be_given_up_anywhere() {
    let text = shapes::SHAPES[0].1(2_000);
    let all = Counting::default();
    Program::build_watched(text.as_bytes(), Isa::detect(), &all).expect("builds");
    let all = all.questions.into_inner();
    assert!(all > 100, "{all} questions");
    for most in (0..all).step_by(all as usize / 50) {
        let watch = Counting {
            most: Some(most),
            ..Counting::default()
        };
        let halted = Program::build_watched(text.as_bytes(), Isa::detect(), &watch);
        assert_eq!(
            halted.err(),
            Some(BuildError::Halted(Halt::Unwanted)),
            "at {most} of {all}"
        );
    }
}

/// Reports that time is up after this many questions.
struct Late(AtomicU64);

impl Watch for Late {
    fn goes_on(&self, _: u64) -> Result<(), Halt> {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        match left {
            0 => Err(Halt::Seconds(1)),
            _ => Ok(()),
        }
    }
}

#[test]
fn what_there_is_no_time_to_generate_is_interpreted() {
    if Isa::detect() != Isa::Native {
        return;
    }
    let text = shapes::SHAPES[0].1(2_000);
    let [interpreted, generated] = [Isa::Avx2, Isa::Native].map(|isa| {
        let all = Counting::default();
        Program::build_watched(text.as_bytes(), isa, &all).expect("builds");
        all.questions.into_inner()
    });
    assert!(generated > interpreted + 10, "code takes time as well");
    let late = |questions: u64| {
        let watch = Late(AtomicU64::new(questions));
        Program::build_watched(text.as_bytes(), Isa::Native, &watch)
    };
    for questions in [
        interpreted + 1,
        (interpreted + generated) / 2,
        generated - 1,
    ] {
        assert!(late(questions).is_ok(), "{questions} of {generated}");
    }
    let error = late(interpreted / 2).expect_err("it is not even decoded");
    assert_eq!(error, BuildError::Halted(Halt::Seconds(1)));
}
