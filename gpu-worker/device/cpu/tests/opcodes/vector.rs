//! A test of one form: operands, an expectation, and the kernel that runs it in every lane.

use crate::launch::launch;
use crate::values::{self, Kind, LANES};
use device_cpu::{EngineConfig, Grid, Isa, Program};
use ptx::ParsedModule;
use std::fmt::Write as _;

/// Values of the sources of one lane, truncated to their widths.
pub(crate) type Inputs = [u64; 4];

/// Expected result of a lane.
pub(crate) enum Expect {
    /// Exactly these bits.
    Bits(Box<dyn Fn(Inputs) -> u64>),
    /// Exactly these bits in each of several results.
    Each(Box<dyn Fn(Inputs) -> [u64; 4]>),
    /// Any value that the function accepts; its error is the failure.
    Within(Box<dyn Fn(Inputs, u64) -> Result<(), String>>),
}

/// Kind of a test.
enum Means {
    /// A form in lanes of chosen and random values.
    Vector(Vector),
    /// A function that panics on failure, such as one that runs a whole kernel.
    Check(Box<dyn Fn()>),
}

/// A test and the forms it covers.
pub(crate) struct Test {
    /// Opcodes with their modifiers.
    pub(crate) forms: Vec<String>,
    means: Means,
}

struct Vector {
    /// Text before the entry.
    module: String,
    body: String,
    results: Vec<Kind>,
    sources: Vec<Kind>,
    expect: Expect,
    lanes: usize,
}

/// Names of results and sources in a body.
const RESULTS: [&str; 4] = ["d", "e", "f", "g"];
const SOURCES: [&str; 4] = ["a", "b", "c", "h"];

fn kinds(list: &str) -> Vec<Kind> {
    list.split_whitespace().map(Kind::of).collect()
}

impl Test {
    /// `form %d, %a, %b, …;` with the kinds of results and sources, as in `"s64 = s32 s32"`.
    pub(crate) fn new(
        form: impl Into<String>,
        signature: &str,
        expect: impl Fn(Inputs) -> u64 + 'static,
    ) -> Self {
        Self::with(form, signature, Expect::Bits(Box::new(expect)))
    }

    /// As [`Test::new`], with any expectation.
    pub(crate) fn with(form: impl Into<String>, signature: &str, expect: Expect) -> Self {
        let form = form.into();
        let (results, sources) = signature.split_once('=').expect("results = sources");
        let (results, sources) = (kinds(results), kinds(sources));
        let names = RESULTS[..results.len()]
            .iter()
            .chain(&SOURCES[..sources.len()]);
        let operands: Vec<_> = names.map(|name| format!("%{name}")).collect();
        let vector = Vector {
            module: String::new(),
            body: format!("{form} {};", operands.join(", ")),
            results,
            sources,
            expect,
            lanes: LANES,
        };
        Self {
            forms: vec![form],
            means: Means::Vector(vector),
        }
    }

    /// Replaces `form %d, %a, …;` by another text. Results are `%d %e %f %g`, and sources are
    /// `%a %b %c %h`.
    pub(crate) fn body(mut self, text: impl Into<String>) -> Self {
        if let Means::Vector(vector) = &mut self.means {
            vector.body = text.into();
        }
        self
    }

    /// Sets text at module scope: variables and functions that the body uses.
    pub(crate) fn module(mut self, text: impl Into<String>) -> Self {
        if let Means::Vector(vector) = &mut self.means {
            vector.module = text.into();
        }
        self
    }

    /// Runs another number of lanes than [`LANES`], a multiple of 128; 65536 give a single source
    /// of 16 bits every value.
    pub(crate) fn lanes(mut self, lanes: usize) -> Self {
        if let Means::Vector(vector) = &mut self.means {
            vector.lanes = lanes;
        }
        self
    }

    /// Adds forms that the body covers.
    pub(crate) fn also<S: Into<String>>(mut self, forms: impl IntoIterator<Item = S>) -> Self {
        self.forms.extend(forms.into_iter().map(Into::into));
        self
    }

    /// Forms tested by a function that panics on failure.
    pub(crate) fn check(forms: Vec<String>, check: impl Fn() + 'static) -> Self {
        Self {
            forms,
            means: Means::Check(Box::new(check)),
        }
    }
}

/// Runs tests; panics at the end with all failures.
pub(crate) fn run(tests: &[Test]) {
    let mut failures = Vec::new();
    for test in tests {
        match &test.means {
            Means::Check(check) => check(),
            Means::Vector(vector) => {
                if let Err(failure) = vector.run() {
                    failures.push(format!("{}: {failure}", vector.body));
                }
            }
        }
    }
    let shown = failures.iter().take(40).cloned().collect::<Vec<_>>();
    assert!(
        failures.is_empty(),
        "{} of {} tests failed:\n{}",
        failures.len(),
        tests.len(),
        shown.join("\n")
    );
}

impl Vector {
    /// The whole module: the body in all lanes, then only in those that `%m` selects.
    fn source(&self) -> String {
        let n = 8 * self.lanes;
        let mut text = String::from(".version 8.3\n.target sm_90\n.address_size 64\n");
        text += &self.module;
        text.push_str(
            ".entry k(.param .u64 base) {
             .reg .b64 %p, %at, %rand; .reg .b32 %t, %u, %word; .reg .pred %m;
             ld.param.u64 %p, [base]; mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x;
             shl.b32 %u, %u, 7; add.u32 %t, %t, %u; mul.wide.u32 %at, %t, 8;
             add.u64 %p, %p, %at;\n",
        );
        let _ = writeln!(text, "ld.global.b64 %rand, [%p + {}];", 4 * n);
        text += "cvt.u32.u64 %word, %rand; and.b32 %word, %word, 1; setp.ne.u32 %m, %word, 0;\n";
        for (at, (kind, name)) in self.sources.iter().zip(SOURCES).enumerate() {
            text += &kind.declare(name);
            text += &kind.load(name, n * at);
        }
        for (kind, name) in self.results.iter().zip(RESULTS) {
            text += &kind.declare(name);
        }
        let _ = writeln!(text, "{{ {} }}", self.body);
        self.save(&mut text, 5 * n);
        for (kind, name) in self.results.iter().zip(RESULTS) {
            text += &kind.load(name, 4 * n);
        }
        if self.body.matches(';').count() == 1 {
            let _ = writeln!(text, "@%m {}", self.body);
        } else {
            let _ = writeln!(text, "@!%m bra skip; {{ {} }} skip:", self.body);
        }
        self.save(&mut text, 9 * n);
        text + "ret; }"
    }

    fn save(&self, text: &mut String, offset: usize) {
        for (at, (kind, name)) in self.results.iter().zip(RESULTS).enumerate() {
            *text += &kind.save(name, offset + 8 * self.lanes * at);
        }
    }

    fn run(&self) -> Result<(), String> {
        let source = self.source();
        let module = ParsedModule::parse(&source).map_err(|error| error.to_string())?;
        let mut inputs = values::inputs(&self.sources, self.lanes);
        let random = values::random(self.lanes);
        for isa in [Isa::Portable, Isa::Avx2, Isa::Native] {
            let out = self.launch(&module, isa, &inputs, &random)?;
            for (lane, inputs) in inputs.iter_mut().enumerate() {
                for (value, kind) in inputs.iter_mut().zip(&self.sources) {
                    *value = kind.cut(*value);
                }
                let got = |at: usize| out[self.lanes * at + lane];
                for at in 0..self.results.len() {
                    self.compare(*inputs, at, got(at))
                        .and_then(|()| match (random[lane] & 1 != 0, got(4 + at)) {
                            (true, bits) if bits == got(at) => Ok(()),
                            (false, bits) if bits == self.results[at].cut(random[lane]) => Ok(()),
                            (_, bits) => Err(format!("{bits:#x} under a partial mask")),
                        })
                        .map_err(|what| {
                            let shown: Vec<_> = inputs[..self.sources.len()]
                                .iter()
                                .map(|bits| format!("{bits:#x}"))
                                .collect();
                            format!("{isa:?}, lane {lane}, {}: {what}", shown.join(" "))
                        })?;
                }
            }
        }
        Ok(())
    }

    fn compare(&self, inputs: Inputs, at: usize, got: u64) -> Result<(), String> {
        let want = match &self.expect {
            Expect::Bits(want) => want(inputs),
            Expect::Each(want) => want(inputs)[at],
            Expect::Within(check) => return check(inputs, got),
        };
        let want = self.results[at].cut(want);
        if got == want {
            return Ok(());
        }
        Err(format!("gave {got:#x}, expected {want:#x}"))
    }

    /// The eight arrays of results.
    fn launch(
        &self,
        module: &ParsedModule<'_>,
        isa: Isa,
        inputs: &[Inputs],
        random: &[u64],
    ) -> Result<Vec<u64>, String> {
        let program = Program::build_for(module, isa).map_err(|error| error.to_string())?;
        let bytes = 8 * self.lanes;
        let mut image = Vec::with_capacity(13 * bytes);
        for at in 0..4 {
            image.extend(inputs.iter().flat_map(|lane| lane[at].to_le_bytes()));
        }
        image.extend(random.iter().flat_map(|bits| bits.to_le_bytes()));
        image.resize(13 * bytes, 0);
        let grid = Grid::flat((self.lanes / 128) as u32, 128);
        let left = launch(&program, EngineConfig::default(), grid, image, &[]);
        Ok(left
            .map_err(|error| error.to_string())?
            .split_off(5 * self.lanes))
    }
}
