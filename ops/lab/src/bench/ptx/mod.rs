//! `warploom bench ptx`: the CPU device's engine beside PoCL and native loops.

mod opencl;
mod ours;
mod peer;
pub(super) mod pocl;
mod unchecked;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use device_cpu::{Engine, Isa};
use workloads::suite::{CASES, Case};

use self::ours::Loaded;
use self::peer::{Peer, fastest};
use super::metric::{Goal, Measurement, Spec, median};

/// Minimum number of blocks for a measurement with two threads.
const MANY_BLOCKS: u32 = 1_000;
/// Minimum speed of a kernel, as a fraction of PoCL's.
const LEAST: f64 = 0.25;

macro_rules! kernels {
    ($($name:literal)*) => {
        /// Metrics per kernel: against PoCL, and against the native loop.
        const KERNELS: [[Spec; 2]; CASES.len()] = [$([
            ratio(concat!($name, "_vs_pocl"), vs_pocl($name), "our speed / PoCL's, the same algorithm and tiles"),
            ratio(concat!($name, "_vs_native"), Goal::None, "our speed / a native Rust loop's"),
        ]),*];
    };
}

kernels! {
    "saxpy" "gelu" "layernorm" "softmax" "reduce" "scan" "matmul" "mma" "attention" "transpose"
    "histogram" "nbody" "stencil" "gather"
}

const fn vs_pocl(name: &str) -> Goal {
    match name.as_bytes() {
        b"matmul" => Goal::AtLeast(1.5),
        b"mma" => Goal::None,
        _ => Goal::AtLeast(LEAST),
    }
}

const fn ratio(name: &'static str, goal: Goal, what: &'static str) -> Spec {
    Spec {
        name,
        unit: "ratio",
        goal,
        what,
    }
}

const GEOMEAN: Spec = ratio(
    "geomean_vs_pocl",
    Goal::AtLeast(0.8),
    "geometric mean of all KERNEL_vs_pocl",
);
const INTERPRETER: Spec = ratio(
    "interpreter_geomean_vs_pocl",
    Goal::AtLeast(0.45),
    "the same with the interpreter alone",
);
const FIRST: Spec = ratio(
    "first_launch_vs_pocl",
    Goal::AtLeast(100.0),
    "PoCL's time from source to the end of one block, no cache / ours; geometric mean",
);
const THREADS: Spec = ratio(
    "two_thread_speedup",
    Goal::AtLeast(1.8),
    "two threads / one, kernels of 1,000 blocks or more; geometric mean",
);
const OVERHEAD: Spec = ratio(
    "check_overhead",
    Goal::AtMost(1.05),
    "time with address checks and kill switch / time of a build without; geometric mean",
);

/// All metrics of this benchmark.
pub(super) fn metrics() -> impl Iterator<Item = &'static Spec> {
    let kernels: &'static [[Spec; 2]] = &KERNELS;
    let whole: [&Spec; 5] = [&GEOMEAN, &INTERPRETER, &FIRST, &THREADS, &OVERHEAD];
    kernels.iter().flatten().chain(whole)
}

/// Values by metric, one per repetition, or the reason why there are none.
#[derive(Default)]
struct Found {
    values: BTreeMap<&'static str, Vec<f64>>,
    baselines: BTreeMap<&'static str, Vec<f64>>,
    missing: BTreeMap<&'static str, String>,
    /// The interpreter's ratios, by the metric beside which they are reported.
    interpreter: BTreeMap<&'static str, Vec<f64>>,
}

impl Found {
    fn add(&mut self, spec: &Spec, value: f64) {
        self.values.entry(spec.name).or_default().push(value);
    }

    fn baseline(&mut self, spec: &Spec, value: f64) {
        self.baselines.entry(spec.name).or_default().push(value);
    }

    fn miss(&mut self, spec: &Spec, why: &str) {
        self.missing.insert(spec.name, why.to_owned());
    }

    /// The metric, compared with this baseline.
    fn metric(&mut self, spec: &Spec, against: &'static str) -> Measurement {
        if let Some(why) = self.missing.get(spec.name) {
            return Measurement::missing(spec, why);
        }
        let metric = Measurement::new(spec, self.values.get(spec.name).map_or(&[], Vec::as_slice));
        let metric = match self
            .interpreter
            .get(spec.name)
            .and_then(|values| median(values))
        {
            Some(ratio) => metric.with("interpreter", ratio),
            None => metric,
        };
        match self.baselines.get(spec.name) {
            Some(values) => metric.against(against, values),
            None => metric,
        }
    }
}

/// A measured kernel.
struct Kernel {
    case: &'static Case,
    specs: &'static [Spec; 2],
    loaded: Loaded,
    /// As `loaded`, for the interpreter alone.
    interpreted: Loaded,
    buffers: Vec<workloads::suite::Data>,
    /// True if PoCL has it and computed it correctly.
    pocl: bool,
}

fn geomean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.into_iter().map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Measures all wanted metrics.
pub(super) fn ptx(
    reps: usize,
    threads: usize,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) {
    let specs: Vec<&Spec> = metrics().filter(|spec| wanted(spec.name)).collect();
    let any = |list: &[&Spec]| {
        specs
            .iter()
            .any(|spec| list.iter().any(|it| it.name == spec.name))
    };
    let engine = ours::engine(threads);
    let mut found = Found::default();
    let mut pocl = pocl::start(threads).map_err(|error| format!("{error:#}"));
    let whole = any(&[&GEOMEAN, &INTERPRETER, &FIRST, &THREADS, &OVERHEAD]);
    let chosen = CASES.iter().zip(&KERNELS);
    let chosen = chosen.filter(|(_, specs)| whole || any(&[&specs[0], &specs[1]]));
    let mut kernels: Vec<Kernel> = chosen
        .filter_map(|(case, specs)| kernel(case, specs, &engine, &mut pocl, &mut found))
        .collect();
    if whole || !kernels.is_empty() {
        steady(
            reps,
            &engine,
            &mut kernels,
            pocl.as_mut().ok().map(|(peer, _)| peer),
            &mut found,
        );
    }
    if any(&[&FIRST]) {
        match &mut pocl {
            Ok((peer, _)) => first(reps, &engine, &mut kernels, peer, &mut found),
            Err(why) => found.miss(&FIRST, why),
        }
    }
    if any(&[&THREADS]) {
        two_threads(reps, &mut kernels, &mut found);
    }
    if any(&[&OVERHEAD])
        && let Err(error) = overhead(reps, &kernels, &mut found)
    {
        found.miss(&OVERHEAD, &format!("{error:#}"));
    }
    if let Err(why) = &pocl {
        found.miss(&GEOMEAN, why);
        found.miss(&INTERPRETER, why);
    }
    let version = pocl
        .as_ref()
        .map_or("none", |(_, version)| version.as_str());
    for spec in specs {
        tell(report(&mut found, spec, threads).with("pocl", version));
    }
}

fn report(found: &mut Found, spec: &Spec, threads: usize) -> Measurement {
    let against = match spec.name {
        name if name == THREADS.name => "one thread",
        name if name == OVERHEAD.name => "a build without checks",
        name if name.ends_with("_vs_native") => "native loop",
        _ => "PoCL",
    };
    let metric = found.metric(spec, against);
    if spec.name == THREADS.name {
        return metric.with("threads", 2);
    }
    metric.with("threads", threads)
}

/// A kernel that all sides have computed correctly; failures are noted.
fn kernel(
    case: &'static Case,
    specs: &'static [Spec; 2],
    engine: &Engine,
    pocl: &mut Result<(Peer, String), String>,
    found: &mut Found,
) -> Option<Kernel> {
    eprintln!("checking {}", case.name);
    let mut have = false;
    if case.opencl.is_none() {
        found.miss(&specs[0], "PoCL has no such operation");
    } else {
        let checked = match pocl {
            Ok((peer, _)) => peer
                .ask("check", case.name)
                .map_err(|error| format!("{error:#}")),
            Err(why) => Err(why.clone()),
        };
        match checked {
            Ok(_) => have = true,
            Err(why) => found.miss(&specs[0], &why),
        }
    }
    let load = |isa| Loaded::checked(case, engine, isa);
    match load(Isa::detect()).and_then(|loaded| Ok((loaded, load(Isa::Avx2)?))) {
        Ok((loaded, interpreted)) => Some(Kernel {
            case,
            specs,
            loaded,
            interpreted,
            buffers: case.input(),
            pocl: have,
        }),
        Err(error) => {
            let why = format!("{error:#}");
            specs.iter().for_each(|spec| found.miss(spec, &why));
            None
        }
    }
}

/// Measures ours, PoCL's and the native loop, one after the other for each kernel in every repetition.
fn steady(
    reps: usize,
    engine: &Engine,
    kernels: &mut [Kernel],
    mut pocl: Option<&mut Peer>,
    found: &mut Found,
) {
    for rep in 1..=reps {
        eprintln!("repetition {rep} of {reps}");
        let (mut ratios, mut interpreter) = (Vec::new(), Vec::new());
        for kernel in kernels.iter_mut() {
            let Kernel {
                case,
                specs,
                loaded,
                ..
            } = kernel;
            let Ok(ours) = fastest(|| loaded.launch(engine, case.grid)) else {
                continue;
            };
            let native = fastest(|| {
                let began = Instant::now();
                case.native(&mut kernel.buffers);
                Ok(began.elapsed())
            });
            if let Ok(native) = native {
                found.add(&specs[1], native / ours);
                found.baseline(&specs[1], native / 1e6);
            }
            if let Some(peer) = pocl.as_mut().filter(|_| kernel.pocl)
                && let Ok(theirs) = peer.time("steady", case.name)
            {
                found.add(&specs[0], theirs / ours);
                found.baseline(&specs[0], theirs / 1e6);
                ratios.push(theirs / ours);
                if let Ok(ours) = fastest(|| kernel.interpreted.launch(engine, case.grid)) {
                    let ratio = theirs / ours;
                    found
                        .interpreter
                        .entry(specs[0].name)
                        .or_default()
                        .push(ratio);
                    interpreter.push(ratio);
                }
            }
        }
        if let Some(mean) = geomean(ratios) {
            found.add(&GEOMEAN, mean);
        }
        if let Some(mean) = geomean(interpreter) {
            found.add(&INTERPRETER, mean);
        }
    }
}

/// Measures the time from the source to the end of one block.
fn first(reps: usize, engine: &Engine, kernels: &mut [Kernel], peer: &mut Peer, found: &mut Found) {
    for rep in 1..=reps {
        eprintln!("first launches, repetition {rep} of {reps}");
        let mut ratios = Vec::new();
        for kernel in kernels.iter_mut().filter(|kernel| kernel.pocl) {
            let ours = kernel.loaded.first(engine);
            if let (Ok(ours), Ok(theirs)) = (ours, peer.time("first", kernel.case.name)) {
                ratios.push(theirs / 1e9 / ours.as_secs_f64());
                found.baseline(&FIRST, theirs / 1e6);
            }
        }
        if let Some(mean) = geomean(ratios) {
            found.add(&FIRST, mean);
        }
    }
}

fn two_threads(reps: usize, kernels: &mut [Kernel], found: &mut Found) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return found.miss(&THREADS, "the machine has one core");
    }
    let engines = [ours::engine(1), ours::engine(2)];
    for rep in 1..=reps {
        eprintln!("two threads, repetition {rep} of {reps}");
        let many = |kernel: &&mut Kernel| kernel.case.grid.iter().product::<u32>() >= MANY_BLOCKS;
        let ratios = kernels.iter_mut().filter(many).filter_map(|kernel| {
            let Kernel { case, loaded, .. } = kernel;
            let mut time = |engine| fastest(|| loaded.launch(engine, case.grid)).ok();
            Some(time(&engines[0])? / time(&engines[1])?)
        });
        if let Some(mean) = geomean(ratios) {
            found.add(&THREADS, mean);
        }
    }
}

/// Measures two builds of one program, with and without checks, each in a process.
fn overhead(reps: usize, kernels: &[Kernel], found: &mut Found) -> Result<()> {
    let [mut with, mut without] = unchecked::start()?;
    for rep in 1..=reps {
        eprintln!("checks, repetition {rep} of {reps}");
        let mut ratios = Vec::new();
        for kernel in kernels {
            let name = kernel.case.name;
            ratios.push(with.time("steady", name)? / without.time("steady", name)?);
        }
        if let Some(mean) = geomean(ratios) {
            found.add(&OVERHEAD, mean);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_those_of_the_suite() {
        for (case, specs) in CASES.iter().zip(&KERNELS) {
            assert_eq!(specs[0].name, format!("{}_vs_pocl", case.name));
            assert_eq!(specs[1].name, format!("{}_vs_native", case.name));
        }
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        let mean = geomean([4.0, 0.25]).expect("a mean");
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geomean([]), None);
    }

    #[test]
    fn one_repetition_of_one_kernel_measures_it() {
        let mut told = Vec::new();
        ptx(
            1,
            1,
            |name| name == "gather_vs_native",
            |metric| told.push(metric),
        );
        assert_eq!(told.len(), 1);
        assert!(told[0].value.is_some_and(|ratio| ratio > 0.0), "{told:?}");
    }
}
