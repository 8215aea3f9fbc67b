//! The cost of torch.compile to a program. Measured are the waits of a compiled block of GPT-2, its call
//! beside the same launches by a driver API program, and the start. The environment and the compiled
//! kernels come from `tests/peers/run.py --suite torch`, which records their location.

pub(super) mod replay;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::metric::{Goal, Measurement, Spec, median, metrics};
use super::{bench_cluster, start};
use replay::{FOLDER, PROCESS, Took};
use warploom_cli::local::{LocalCluster, Scratch};

metrics! {
    WAITS = "torch_waits", "waits", Goal::AtMost(2.0),
        "waits for an answer of a call of a compiled GPT-2 block, input from the host and result back";
    OVERHEAD = "torch_overhead", "ratio", Goal::AtMost(1.05),
        "time of a call of that block / of the same launches by a program of the driver API";
    START = "torch_start_ratio", "ratio", Goal::AtMost(1.3),
        "import of torch and Triton, a kernel compiled before, and a sync / that import alone";
}

/// Calls of a short run and of a longer one: loading and compiling are the same in both.
const CALLS: [u32; 2] = [10, 30];

/// Measures the wanted metrics, or reports why it cannot.
///
/// # Errors
/// If a program of the environment fails.
pub(super) async fn measure(
    cluster: &LocalCluster,
    folder: &Path,
    reps: usize,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    let specs: Vec<&'static Spec> = METRICS.iter().filter(|it| wanted(it.name)).collect();
    let python = match Python::find(cluster, folder) {
        Ok(python) => python,
        Err(error) => {
            let why = format!("{error:#}");
            specs
                .iter()
                .for_each(|spec| tell(Measurement::missing(spec, &why)));
            return Ok(());
        }
    };
    for spec in specs {
        let metric = match spec.name {
            name if name == WAITS.name => waits(&python, reps).await,
            name if name == OVERHEAD.name => overhead(&python, reps).await,
            _ => start(&python, reps).await,
        };
        tell(metric.with_context(|| spec.name)?);
    }
    Ok(())
}

async fn waits(python: &Python<'_>, reps: usize) -> Result<Measurement> {
    let [short, long] = CALLS;
    let mut waits = Vec::new();
    for rep in 1..=reps {
        eprintln!("waits of torch: repetition {rep} of {reps}");
        let few = python.waits(short).await?;
        let many = python.waits(long).await?;
        waits.push((many - few) / f64::from(long - short));
    }
    Ok(Measurement::new(&WAITS, &waits).with("calls", long))
}

/// Output of the block's program.
#[derive(Deserialize)]
struct Recorded {
    seconds: Vec<f64>,
    launches: usize,
}

async fn overhead(python: &Python<'_>, reps: usize) -> Result<Measurement> {
    let (mut ratios, mut bare, mut launches) = (Vec::new(), Vec::new(), 0);
    for rep in 1..=reps {
        eprintln!("overhead of torch: repetition {rep} of {reps}");
        let scratch = Scratch::new()?;
        let place = scratch.path().to_string_lossy();
        let torch: Recorded = python.run(&["record", &place]).await?;
        let mut command = python.command(&std::env::current_exe()?)?;
        command.args(["bench", PROCESS]).env(FOLDER, scratch.path());
        let same: Took = told(command).await?.0;
        let [ours, theirs] = [&torch.seconds, &same.seconds].map(|it| median(it));
        let (ours, theirs) = (ours.context("a call")?, theirs.context("a call")?);
        ratios.push(ours / theirs);
        bare.push(theirs * 1e3);
        launches = torch.launches;
    }
    Ok(Measurement::new(&OVERHEAD, &ratios)
        .against("the same launches by the driver API, ms", &bare)
        .with("launches", launches))
}

async fn start(python: &Python<'_>, reps: usize) -> Result<Measurement> {
    let (mut ratios, mut alone) = (Vec::new(), Vec::new());
    // All compilation is done before, and every file has been read.
    let _: Seconds = python.run(&["start"]).await?;
    for rep in 1..=reps {
        eprintln!("start of torch: repetition {rep} of {reps}");
        let import: Seconds = python.run(&["import"]).await?;
        let whole: Seconds = python.run(&["start"]).await?;
        ratios.push(whole.seconds / import.seconds);
        alone.push(import.seconds);
    }
    Ok(Measurement::new(&START, &ratios).against("import alone, s", &alone))
}

#[derive(Deserialize)]
struct Seconds {
    seconds: f64,
}

/// Paths of torch and of the compiled kernels, as recorded by the suite.
#[derive(Debug, Deserialize)]
struct Environment {
    python: PathBuf,
    cache: PathBuf,
}

/// Python with torch on a cluster.
struct Python<'a> {
    environment: Environment,
    program: PathBuf,
    cluster: &'a LocalCluster,
    folder: &'a Path,
}

impl<'a> Python<'a> {
    /// Finds the recorded environment; installs and compiles nothing.
    fn find(cluster: &'a LocalCluster, folder: &'a Path) -> Result<Self> {
        let tools = broker::tools_dir(None);
        let noted = tools.with_file_name("torch").join("environment.json");
        let text = fs::read(&noted).with_context(|| {
            let noted = noted.display();
            format!("{noted} is missing: `tests/peers/run.py --suite torch` writes it")
        })?;
        let environment: Environment = serde_json::from_slice(&text).context("the environment")?;
        for path in [&environment.python, &environment.cache] {
            ensure!(path.exists(), "{} is there no more", path.display());
        }
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/torch/bench.py");
        ensure!(program.is_file(), "{} is missing", program.display());
        Ok(Self {
            environment,
            program,
            cluster,
            folder,
        })
    }

    /// A command that finds the library, the cluster, and the compiled kernels.
    fn command(&self, program: &Path) -> Result<Command> {
        let mut command = start::python(program, self.cluster, self.folder)?;
        command
            .env("WARPLOOM_CLIENT_RUNTIME_TABLES", "on")
            .env("HF_HUB_OFFLINE", "1")
            .env("TORCHINDUCTOR_COMPILE_THREADS", "1");
        for (name, part) in [
            ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
            ("TRITON_CACHE_DIR", "triton"),
        ] {
            command.env(name, self.environment.cache.join(part));
        }
        Ok(command)
    }

    async fn run<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T> {
        Ok(self.ran(arguments).await?.0)
    }

    async fn ran<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<(T, String)> {
        let mut command = self.command(&self.environment.python)?;
        command.arg(&self.program).args(arguments);
        told(command).await
    }

    /// Number of waits in a run of `calls` calls.
    async fn waits(&self, calls: u32) -> Result<f64> {
        let (_, said): (serde_json::Value, _) = self.ran(&["call", &calls.to_string()]).await?;
        start::waits(&said)
    }
}

/// Runs a program. Returns its last output, and its stderr.
async fn told<T: DeserializeOwned>(command: Command) -> Result<(T, String)> {
    let output = bench_cluster::output(command).await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("a program of torch: {}", said.trim());
    }
    let printed = String::from_utf8(output.stdout).context("text")?;
    let last = printed.lines().last().context("a line of JSON")?;
    Ok((serde_json::from_str(last).context("what it prints")?, said))
}
